// The windows of reduce_window and select_and_scatter. Plain declarations: kernels include this header as
// well. Source: the StableHLO specification, reduce_window.
#ifndef HLO_WINDOWGEOMETRY_HPP
#define HLO_WINDOWGEOMETRY_HPP

#include <cstdint>

#include "ipu_model/Types.hpp"

namespace hlo {

// One dimension, in elements. Output position q and window position k meet at operand position
// (q * stride + k * window_dilation - padding_low) / base_dilation, if that is an integer and inside the
// operand. The high padding follows from the size of the output.
struct WindowDimension {
  std::int64_t size = 1;
  std::int64_t stride = 1;
  std::int64_t base_dilation = 1;
  std::int64_t window_dilation = 1;
  std::int64_t padding_low = 0;  // may be negative
};

struct WindowGeometry {
  int rank = 0;
  WindowDimension dim[ipu_model::kMaxRank];
};

}  // namespace hlo

#endif  // HLO_WINDOWGEOMETRY_HPP
