// Batched matrix product on strided host tensors.
#ifndef IPU_MODEL_KERNELS_PRODUCT_GEMM_H_
#define IPU_MODEL_KERNELS_PRODUCT_GEMM_H_

#include "ipu_model/Types.hpp"
#include "kernels/host/context.h"
#include "kernels/host/host_tensor.h"

namespace ipu_model {

// Returns the type in which products are summed: f32 for all floats up to 32 bits (the result is rounded
// once); f64, c64 or c128 if an operand or the result has that type; u32 or u64 for integers (wrapping, of
// any signedness) and for kPred (counts of true products). Returns kCount for type combinations without a
// meaning.
DType GemmAccumulator(DType a, DType b, DType out);

// out[g, m, n] = sum over k of a[g, m, k] * b[g, k, n]; or-and if `out` is kPred. a and b may have any
// strides, including 0 and negative ones; `out` must not overlap them. An empty sum is 0. Floats are summed
// by FMAs in the order of k, restarted every 512 k, except in products with at most 4 rows or columns.
// Complex sums of at most 8 products are computed as in XLA:CPU: re re - im im and re im + im re, from four
// sums in the order of k with rounded products. The bits do not depend on the number of workers.
void Gemm(HostContext& context, const HostTensor& a, const HostTensor& b, const HostTensor& out);

// sums[g, m, n] += sum over k of a[g, m, k] * b[g, k, n], as the AMP computes half partials: groups of `step`
// k are summed in f32, by FMAs in the order of k; each group is added to the sum, which is then rounded to
// f16. `sums` is dense f32 and holds f16 values. a and b are floats of at most 32 bits with any strides.
// `step` divides 512.
void GemmHalfPartials(HostContext& context, const HostTensor& a, const HostTensor& b, std::int64_t step,
                      const HostTensor& sums);
// Rounds each f32 value to the nearest f16 value, in place.
void RoundToHalf(ThreadPool& pool, float* values, std::int64_t count);

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_PRODUCT_GEMM_H_
