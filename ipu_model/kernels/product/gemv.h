// A few rows times a matrix, the memory-bound case of the matrix product. Private to the GEMM files.
#ifndef IPU_MODEL_KERNELS_PRODUCT_GEMV_H_
#define IPU_MODEL_KERNELS_PRODUCT_GEMV_H_

#include "kernels/host/context.h"
#include "kernels/product/gemm_problem.h"

namespace ipu_model {
namespace ISA_NAMESPACE {

// Computes a problem with m == 1, or with m <= kFewRows and a B of at least kStreamedBytes. Returns false if
// no kernel supports its types and strides (unit stride of B along k or n).
bool RunFewRows(HostContext& context, const GemmProblem& problem);

}  // namespace ISA_NAMESPACE
}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_PRODUCT_GEMV_H_
