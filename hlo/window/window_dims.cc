#include "window/window_dims.h"

#include <algorithm>
#include <cstdint>

namespace hlo {
namespace {

int placeOf(const std::vector<std::int64_t>& list, std::size_t value) {
  const auto found = std::find(list.begin(), list.end(), static_cast<std::int64_t>(value));
  return found == list.end() ? -1 : static_cast<int>(found - list.begin());
}

}  // namespace

ResolvedDims resolve(const WindowDims& dims, std::size_t operandRank, std::size_t indicesRank,
                     std::size_t windowsRank) {
  ResolvedDims result;
  for (unsigned d = 0; d < windowsRank; ++d)
    if (placeOf(dims.offset_dims, d) < 0) result.batch.push_back(d);
  for (unsigned d = 0; d < indicesRank; ++d)
    if (static_cast<std::int64_t>(d) != dims.index_vector_dim) result.index.push_back(d);
  std::size_t offset = 0;
  for (std::size_t d = 0; d < operandRank; ++d) {
    const int component = placeOf(dims.start_index_map, d), pair = placeOf(dims.operand_batching_dims, d);
    int batching = -1;
    for (std::size_t b = 0; pair >= 0 && b < result.index.size(); ++b) {
      if (result.index[b] == dims.indices_batching_dims[static_cast<std::size_t>(pair)])
        batching = static_cast<int>(b);
    }
    const bool hasWindow = pair < 0 && placeOf(dims.collapsed_dims, d) < 0;
    result.component.push_back(component);
    result.wrap.push_back(component < 0 || dims.wraps.empty()
                              ? 0
                              : static_cast<int>(dims.wraps[static_cast<std::size_t>(component)]));
    result.batching.push_back(batching);
    result.window.push_back(hasWindow ? static_cast<int>(dims.offset_dims.at(offset++)) : -1);
  }
  return result;
}

std::vector<std::size_t> stepsOf(const std::vector<std::size_t>& shape) {
  std::vector<std::size_t> steps(shape.size(), 1);
  for (std::size_t d = shape.size(); d-- > 1;) steps[d - 1] = steps[d] * shape[d];
  return steps;
}

}  // namespace hlo
