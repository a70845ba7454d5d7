// A few rows times a matrix that fits into a core's cache, bound to memory, for loops over small tensors.
#ifndef IPU_MODEL_KERNELS_PRODUCT_SMALL_PRODUCT_H_
#define IPU_MODEL_KERNELS_PRODUCT_SMALL_PRODUCT_H_

#include <memory>

#include "kernels/host/bound_kernel.h"
#include "kernels/host/host_tensor.h"
#include "kernels/product/gemm_problem.h"

namespace ipu_model {

// out[g, m, n] = sum over k of a[g, m, k] * b[g, k, n], as in Gemm, for few rows of a or few columns of b.
// Returns null for other products.
std::unique_ptr<BoundKernel> BindSmallProduct(const HostTensor& a, const HostTensor& b,
                                              const HostTensor& out);

// The description that a block function gets, in addition to the operands a and b and the result c.
struct SmallProduct {
  GemmProblem problem;  // its data pointers are not used
  // The row stride of the scratch memory, in elements. It holds the rows of a, then those of c.
  std::int64_t row = 0;
};

namespace avx2 {
// Returns null if the types are not supported.
MicroFunction FindSmallProduct(const GemmProblem& problem);
}  // namespace avx2
namespace avx512 {
MicroFunction FindSmallProduct(const GemmProblem& problem);
}  // namespace avx512

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_PRODUCT_SMALL_PRODUCT_H_
