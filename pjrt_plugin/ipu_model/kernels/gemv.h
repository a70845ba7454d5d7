// Few rows times a matrix, the memory-bound case of the matrix product. Private to the GEMM files.
#ifndef JAX_IPU_KERNELS_GEMV_H_
#define JAX_IPU_KERNELS_GEMV_H_

#include "pjrt_plugin/ipu_model/kernels/context.h"
#include "pjrt_plugin/ipu_model/kernels/gemm_problem.h"

namespace ipu_model {
namespace ISA_NAMESPACE {

// Computes a problem with m == 1, or m <= kFewRows and a B of kStreamedBytes, if there is a kernel for its
// types and strides (unit stride along k or n).
bool RunFewRows(HostContext& context, const GemmProblem& problem);

}  // namespace ISA_NAMESPACE
}  // namespace ipu_model

#endif  // JAX_IPU_KERNELS_GEMV_H_
