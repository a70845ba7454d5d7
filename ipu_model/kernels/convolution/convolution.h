// Convolution on host memory, with the semantics of stablehlo.convolution.
#ifndef IPU_MODEL_KERNELS_CONVOLUTION_CONVOLUTION_H_
#define IPU_MODEL_KERNELS_CONVOLUTION_CONVOLUTION_H_

#include <cstdint>

#include "hlo/ConvolutionGeometry.hpp"
#include "kernels/host/context.h"
#include "kernels/host/host_tensor.h"

namespace ipu_model {

using hlo::ConvolutionGeometry;
using hlo::ConvolutionWindow;
using hlo::kMaxSpatial;

// Returns the type in which products are summed: f32 for all smaller floats, f64, 32- and 64-bit integers
// (which wrap), or the complex form of a float type.
DType ConvolutionSumType(DType lhs, DType rhs, DType out);

// out[n, o, q...] = sum over c, k of lhs[n, c, ...] * rhs[o, c, k...]. Shapes: lhs [N, C, *spatial], rhs
// [O, C / feature_groups, *spatial], out [N / batch_groups, O, *spatial], in any memory layout. Types: f32,
// f64, integers, f16, bf16, c64, c128, the same for all or mixed. Sums of at most 4 products round every
// product, as `multiply` and `add` do; longer sums use FMAs.
void Convolve(HostContext& context, const ConvolutionGeometry& geometry, const HostTensor& lhs,
              const HostTensor& rhs, const HostTensor& out);

// sums[n, q..., o] += the same products, without groups, in the order in which the AMP adds them to half
// partials: one kernel position after another, `step` channels at a time (see GemmHalfPartials). `sums` is
// dense and holds f16 values; out_spatial holds the extents of q.
void ConvolveHalfPartials(HostContext& context, const ConvolutionGeometry& geometry, const HostTensor& lhs,
                          const HostTensor& rhs, const std::int64_t* out_spatial, std::int64_t step,
                          float* sums);

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_CONVOLUTION_CONVOLUTION_H_
