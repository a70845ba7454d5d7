// Products of small matrices without packed copies. Private to the GEMM files.
#ifndef IPU_MODEL_KERNELS_PRODUCT_SMALL_TILES_H_
#define IPU_MODEL_KERNELS_PRODUCT_SMALL_TILES_H_

#include <cstddef>
#include <cstdint>

#include "kernels/product/gemm_problem.h"

namespace ipu_model {

// Computes the groups [begin, end) of a problem. `scratch` has `scratch_bytes` bytes of its own.
struct SmallTiles {
  void (*run)(const GemmProblem& p, std::int64_t begin, std::int64_t end, void* scratch) = nullptr;
  std::size_t scratch_bytes = 0;
};

// `run` is null for types that it does not support. C's rows must be contiguous (c.column == 1), and k at
// most one panel of the blocked product, so that the sums have the same bits.
namespace avx2 {
SmallTiles FindSmallTiles(const GemmProblem& p);
}
namespace avx512 {
SmallTiles FindSmallTiles(const GemmProblem& p);
}

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_PRODUCT_SMALL_TILES_H_
