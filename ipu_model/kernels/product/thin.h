// Products whose sums and all but one of whose dimensions are at most a few elements long. Private to the
// GEMM files.
#ifndef IPU_MODEL_KERNELS_PRODUCT_THIN_H_
#define IPU_MODEL_KERNELS_PRODUCT_THIN_H_

#include "kernels/host/context.h"
#include "kernels/product/gemm_problem.h"

namespace ipu_model {

constexpr std::int64_t kMostThin = 4;

// RunThin computes a problem with m and k of at most kMostThin and many columns, which lie next to each other
// or one after the other; RunTiny computes many groups, of any strides, with m, k and n of at most kMostThin.
// Sums are in the order of k. They return false for other problems and types.
namespace avx2 {
bool RunThin(HostContext& context, const GemmProblem& problem);
bool RunTiny(HostContext& context, const GemmProblem& problem);
}  // namespace avx2
namespace avx512 {
bool RunThin(HostContext& context, const GemmProblem& problem);
bool RunTiny(HostContext& context, const GemmProblem& problem);
}  // namespace avx512

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_PRODUCT_THIN_H_
