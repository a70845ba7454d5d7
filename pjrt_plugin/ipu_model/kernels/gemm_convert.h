// Conversion of strided stacks of matrices between element types, for the operands and results that the GEMM
// kernels do not convert themselves. Private to the GEMM files.
#ifndef JAX_IPU_KERNELS_GEMM_CONVERT_H_
#define JAX_IPU_KERNELS_GEMM_CONVERT_H_

#include <cstdint>

#include "pjrt_plugin/ipu_model/kernels/context.h"
#include "pjrt_plugin/ipu_model/kernels/gemm_problem.h"

namespace ipu_model {

// to_data[g, r, c] = from[g, r, c] for matrices of [rows, columns], where `to` is of an accumulator type.
void LoadMatrices(HostContext& context, const GemmMatrix& from, const GemmMatrix& to, void* to_data,
                  std::int64_t groups, std::int64_t rows, std::int64_t columns);
// The same where `from` is of an accumulator type.
void StoreMatrices(HostContext& context, const GemmMatrix& from, const GemmMatrix& to, void* to_data,
                   std::int64_t groups, std::int64_t rows, std::int64_t columns);

// Zero bytes in every element.
void ZeroMatrices(const GemmMatrix& to, void* to_data, std::int64_t groups, std::int64_t rows,
                  std::int64_t columns);

}  // namespace ipu_model

#endif  // JAX_IPU_KERNELS_GEMM_CONVERT_H_
