// The inner loop of index arithmetic, compiled per instruction set.
#ifndef IPU_MODEL_KERNELS_INDEX_WINDOW_OFFSETS_H_
#define IPU_MODEL_KERNELS_INDEX_WINDOW_OFFSETS_H_

#include <cstdint>

#include "ipu_model/Types.hpp"

namespace ipu_model {

// AddComponent: offset[i] += operand_stride * v for i in
// [0, n), where v is the index at `index` + i * stride (in elements), plus `wrap` if negative. With `clamp`,
// v is clamped to [0, limit]. Without it, offset[i] becomes WindowRows::kSkip if v is outside, and stays
// kSkip once set. Throws std::invalid_argument for types that cannot be indices. FillProgression: offset[i] =
// base + i * step. AddPlaces: AddComponent with `clamp` for indices of 32 bits; all numbers fit into 32 bits.
#define JAX_IPU_DECLARE_WINDOW_OFFSETS                                                              \
  void AddComponent(DType type, const char* index, std::int64_t stride, std::int64_t n, bool clamp, \
                    std::int64_t wrap, std::int64_t limit, std::int64_t operand_stride,             \
                    std::int64_t* offset);                                                          \
  void FillProgression(std::int64_t base, std::int64_t step, std::int64_t n, std::int64_t* offset); \
  void AddPlaces(bool is_unsigned, const void* index, std::int64_t stride, std::int64_t n,          \
                 std::int32_t wrap, std::int32_t limit, std::int32_t operand_stride, std::int32_t* place);
namespace avx2 {
JAX_IPU_DECLARE_WINDOW_OFFSETS
}
namespace avx512 {
JAX_IPU_DECLARE_WINDOW_OFFSETS
}
#undef JAX_IPU_DECLARE_WINDOW_OFFSETS

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_INDEX_WINDOW_OFFSETS_H_
