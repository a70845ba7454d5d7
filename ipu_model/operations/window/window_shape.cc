// How many windows there are. A build against the SDK has this file, too.
#include <string>

#include "hlo/Window.hpp"
#include "poplar/exceptions.hpp"

namespace hlo {

std::vector<std::size_t> windowOutputShape(const std::vector<std::size_t>& operand,
                                           const WindowParameters& params) {
  const auto rank = static_cast<std::size_t>(params.geometry.rank);
  if (operand.size() != rank || params.paddingHigh.size() != rank) {
    throw poplar::poplar_error("a window of " + std::to_string(rank) + " dimensions over an operand of " +
                               std::to_string(operand.size()));
  }
  std::vector<std::size_t> out;
  for (std::size_t d = 0; d < rank; ++d) {
    const WindowDimension& w = params.geometry.dim[d];
    if (w.size < 1 || w.stride < 1 || w.base_dilation < 1 || w.window_dilation < 1) {
      throw poplar::poplar_error("window dimension " + std::to_string(d) +
                                 ": sizes, strides and dilations must be positive");
    }
    const auto size = static_cast<std::int64_t>(operand[d]);
    const std::int64_t room =
        (size == 0 ? 0 : (size - 1) * w.base_dilation + 1) + w.padding_low + params.paddingHigh[d];
    const std::int64_t reach = (w.size - 1) * w.window_dilation + 1;
    out.push_back(room < reach ? 0 : static_cast<std::size_t>((room - reach) / w.stride + 1));
  }
  return out;
}

}  // namespace hlo
