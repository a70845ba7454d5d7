// Convolution on host memory with the semantics of stablehlo.convolution.
#ifndef IPU_MODEL_KERNELS_CONVOLUTION_CONVOLUTION_H_
#define IPU_MODEL_KERNELS_CONVOLUTION_CONVOLUTION_H_

#include <cstdint>

#include "kernels/host/context.h"
#include "kernels/host/host_tensor.h"

namespace ipu_model {

// N, C and O come first, so there is room for this many spatial dimensions.
constexpr int kMaxSpatial = kMaxRank - 2;

// What one spatial dimension does. Output position q and kernel position k meet at position
// (q * stride + k * rhs_dilation - padding_low) / lhs_dilation of the input, where that is whole and inside.
// The high padding follows from the output's size.
struct ConvolutionWindow {
  std::int64_t stride = 1;
  std::int64_t padding_low = 0;
  std::int64_t lhs_dilation = 1;
  std::int64_t rhs_dilation = 1;
  bool reversed = false;  // the kernel is read back to front
};

struct ConvolutionGeometry {
  int spatial = 0;
  ConvolutionWindow window[kMaxSpatial];
  std::int64_t feature_groups = 1;  // of input channels
  std::int64_t batch_groups = 1;    // of the input's batch; at most one of the two is above 1
};

// The type that products are summed in: f32 for all smaller floats, f64, 32 and 64-bit integers (which wrap),
// or their complex forms.
DType ConvolutionSumType(DType lhs, DType rhs, DType out);

// out[n, o, q...] = sum over c, k of lhs[n, c, ...] * rhs[o, c, k...], with lhs [N, C, *spatial], rhs
// [O, C / feature_groups, *spatial], out [N / batch_groups, O, *spatial] in any memory layout. All of one of
// the types f32, f64, integers, f16, bf16, c64, c128, or mixed. Sums of at most 4 products are those of
// rounded products, as `multiply` and `add` make them; longer ones of FMAs.
void Convolve(HostContext& context, const ConvolutionGeometry& geometry, const HostTensor& lhs,
              const HostTensor& rhs, const HostTensor& out);

// sums[n, q..., o] += the same products without groups, as the AMP adds them to half partials: for one kernel
// position after the other, `step` channels at a time (see GemmHalfPartials). `sums` is dense with f16
// values; out_spatial are the extents of q.
void ConvolveHalfPartials(HostContext& context, const ConvolutionGeometry& geometry, const HostTensor& lhs,
                          const HostTensor& rhs, const std::int64_t* out_spatial, std::int64_t step,
                          float* sums);

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_CONVOLUTION_CONVOLUTION_H_
