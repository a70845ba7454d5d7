// Batched matrix product on strided host tensors.
#ifndef IPU_MODEL_KERNELS_PRODUCT_GEMM_H_
#define IPU_MODEL_KERNELS_PRODUCT_GEMM_H_

#include "ipu_model/Types.hpp"
#include "kernels/host/context.h"
#include "kernels/host/host_tensor.h"

namespace ipu_model {

// The type products are summed in: f32 for all floats up to 32 bits (the result is rounded once), f64, c64 or
// c128 where an operand or the result is, u32 or u64 (wrapping, any signedness) for integers and kPred
// (counts of true products). kCount where the combination has no meaning.
DType GemmAccumulator(DType a, DType b, DType out);

// out[g, m, n] = sum over k of a[g, m, k] * b[g, k, n]; or-and when out is kPred. Any strides, also 0 and
// negative on a and b; out must not overlap them. An empty sum is 0. Floats are summed by FMAs in the order
// of k, restarted every 512 k, except in products with at most 4 rows or columns. Complex sums of at most 8
// products are, as XLA:CPU's, re re - im im and re im + im re of four sums in the order of k, of which every
// product is rounded. The same bits for any number of workers.
void Gemm(HostContext& context, const HostTensor& a, const HostTensor& b, const HostTensor& out);

// sums[g, m, n] += sum over k of a[g, m, k] * b[g, k, n] as the AMP does with half partials: the products of
// `step` k are summed in f32, by FMAs in the order of k, then added to the sum, which is rounded to f16.
// `sums` is dense f32 and holds f16 values; a and b are floats of at most 32 bits with any strides. step is a
// divisor of 512.
void GemmHalfPartials(HostContext& context, const HostTensor& a, const HostTensor& b, std::int64_t step,
                      const HostTensor& sums);
// values[i] = nearest f16 value, f32.
void RoundToHalf(ThreadPool& pool, float* values, std::int64_t count);

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_PRODUCT_GEMM_H_
