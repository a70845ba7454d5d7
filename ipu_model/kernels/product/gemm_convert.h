// Converts strided stacks of matrices between element types, for operands and results that the GEMM kernels
// do not convert themselves. Private to the GEMM files.
#ifndef IPU_MODEL_KERNELS_PRODUCT_GEMM_CONVERT_H_
#define IPU_MODEL_KERNELS_PRODUCT_GEMM_CONVERT_H_

#include <cstdint>

#include "kernels/host/context.h"
#include "kernels/product/gemm_problem.h"

namespace ipu_model {

// to_data[g, r, c] = from[g, r, c] for matrices of [rows, columns]. The type of `to` is an accumulator type.
void LoadMatrices(HostContext& context, const GemmMatrix& from, const GemmMatrix& to, void* to_data,
                  std::int64_t groups, std::int64_t rows, std::int64_t columns);
// The same in the other direction: the type of `from` is an accumulator type.
void StoreMatrices(HostContext& context, const GemmMatrix& from, const GemmMatrix& to, void* to_data,
                   std::int64_t groups, std::int64_t rows, std::int64_t columns);

// Sets all bytes of every element to zero.
void ZeroMatrices(const GemmMatrix& to, void* to_data, std::int64_t groups, std::int64_t rows,
                  std::int64_t columns);

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_PRODUCT_GEMM_CONVERT_H_
