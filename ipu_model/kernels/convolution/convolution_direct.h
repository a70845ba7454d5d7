// Direct convolution of one convolution group without input dilation, in two forms: for many output positions
// (forward, input gradient) and for many kernel positions (weight gradient).
#ifndef IPU_MODEL_KERNELS_CONVOLUTION_CONVOLUTION_DIRECT_H_
#define IPU_MODEL_KERNELS_CONVOLUTION_CONVOLUTION_DIRECT_H_

#include <cstdint>

#include "kernels/convolution/convolution.h"
#include "kernels/host/context.h"

namespace ipu_model {

// The extents of input, kernel and output along one spatial dimension, and their strides in elements. Output
// position q and kernel position k read input position q * stride + k * dilation - padding if it is inside.
struct DirectDimension {
  std::int64_t input, kernel, output;
  std::int64_t stride, dilation, padding;
  std::int64_t lhs, rhs, out;
};

template <typename T>
struct DirectConvolution {
  const T* lhs;
  const T* rhs;
  T* out;
  std::int64_t batch, channels, features;
  std::int64_t lhs_batch, lhs_channel;
  std::int64_t rhs_feature, rhs_channel;
  std::int64_t out_batch, out_feature;
  // Feature j reads the lhs at offset j (depthwise: the convolution groups are the features of one problem).
  bool channelwise;
  bool weight_gradient;  // the form that computes it
  bool rounded;          // see ConvolutionStrip
  int dims;
  DirectDimension dim[kMaxSpatial];
};

// The weight-gradient form is for more kernel positions than output positions.
template <typename T>
bool IsWeightGradient(const DirectConvolution<T>& p) {
  double kernel = 1, output = 1;
  for (int d = 0; d < p.dims; ++d) {
    kernel *= static_cast<double>(p.dim[d].kernel);
    output *= static_cast<double>(p.dim[d].output);
  }
  return kernel > output;
}

// Whether the form can read the lhs in its layout. Otherwise, the lhs must be copied to channels last
// (forward) or batch last (weight gradient).
template <typename T>
bool ForwardReads(const DirectConvolution<T>& p) {
  return p.channelwise || p.lhs_channel == 1 || p.channels <= 1;
}
template <typename T>
int UnitStrideTap(const DirectConvolution<T>& p) {
  for (int d = p.dims - 1; d >= 0; --d) {
    if (p.dim[d].kernel > 1 && p.dim[d].lhs * p.dim[d].dilation == 1) return d;
  }
  return -1;
}
// Only valid without input dilation: a phase of a dilated convolution may not contain that tap.
template <typename T>
bool WeightGradientReads(const DirectConvolution<T>& p) {
  return p.channelwise || p.lhs_batch == 1 || p.batch <= 1 || UnitStrideTap(p) >= 0;
}

// T: float, double, std::uint32_t or std::uint64_t. Both write every output.
template <typename T>
void ForwardConvolution(HostContext& context, const DirectConvolution<T>& problem);
template <typename T>
void WeightGradientConvolution(HostContext& context, const DirectConvolution<T>& problem);

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_CONVOLUTION_CONVOLUTION_DIRECT_H_
