// Few rows times a matrix that stays in a core's cache, bound to memory: the products in loops over vectors.
#ifndef IPU_MODEL_KERNELS_PRODUCT_SMALL_PRODUCT_H_
#define IPU_MODEL_KERNELS_PRODUCT_SMALL_PRODUCT_H_

#include <memory>

#include "kernels/host/bound_kernel.h"
#include "kernels/host/host_tensor.h"
#include "kernels/product/gemm_problem.h"

namespace ipu_model {

// out[g, m, n] = sum over k of a[g, m, k] * b[g, k, n], as Gemm; one of a's rows and b's columns are few.
// Null for other products.
std::unique_ptr<BoundKernel> BindSmallProduct(const HostTensor& a, const HostTensor& b,
                                              const HostTensor& out);

// What a call of a block function is given as operands 2 and 3, beside a and b; the result is c.
struct SmallProduct {
  GemmProblem problem;  // its data is not used
  // Elements from one row to the next of the scratch memory, in which rows of a and then those of c lie.
  std::int64_t row = 0;
};

namespace avx2 {
// Null when there is none for the types.
MicroFunction FindSmallProduct(const GemmProblem& problem);
}  // namespace avx2
namespace avx512 {
MicroFunction FindSmallProduct(const GemmProblem& problem);
}  // namespace avx512

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_PRODUCT_SMALL_PRODUCT_H_
