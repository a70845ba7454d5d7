// The spatial description of a convolution. Plain declarations: kernels include this header as well.
// Source: the StableHLO specification, convolution.
#ifndef HLO_CONVOLUTIONGEOMETRY_HPP
#define HLO_CONVOLUTIONGEOMETRY_HPP

#include <cstdint>

#include "ipu_model/Types.hpp"

namespace hlo {

// The largest number of spatial dimensions: batch and channels take two of a tensor's dimensions.
constexpr int kMaxSpatial = ipu_model::kMaxRank - 2;

// One spatial dimension, in elements. Output position q and kernel position k meet at input position
// (q * stride + k * rhs_dilation - padding_low) / lhs_dilation, if that is an integer and inside the input.
// The high padding follows from the size of the output.
struct ConvolutionWindow {
  std::int64_t stride = 1;
  std::int64_t padding_low = 0;  // may be negative
  std::int64_t lhs_dilation = 1;
  std::int64_t rhs_dilation = 1;
  bool reversed = false;  // the kernel is read back to front
};

struct ConvolutionGeometry {
  int spatial = 0;  // number of spatial dimensions
  ConvolutionWindow window[kMaxSpatial];
  std::int64_t feature_groups = 1;  // of input channels
  std::int64_t batch_groups = 1;    // of the input's batch; at most one of the two is above 1
};

}  // namespace hlo

#endif  // HLO_CONVOLUTIONGEOMETRY_HPP
