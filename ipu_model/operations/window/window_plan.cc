// Splits of window operations, regions of operand and windows, and their common attributes.
#include "operations/window/window_plan.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/operation/operand_check.h"
#include "kernels/convolution/convolution_overlap.h"
#include "kernels/host/integer_division.h"
#include "operations/data_views.h"
#include "poplar/exceptions.hpp"

namespace ipu_model {

Grid SplitForWindows(const Shape& shape, const std::vector<std::int64_t>& halo,
                     const std::vector<std::int64_t>& order, std::int64_t vector_width, unsigned num_tiles,
                     std::int64_t bytes_per_element, std::int64_t max_bytes) {
  Grid split = Grid::Of(shape, Shape(shape.size(), 1), num_tiles);
  std::int64_t left = std::max(1u, num_tiles);
  if (!order.empty())
    split.grain[static_cast<std::size_t>(order.back())] = std::max<std::int64_t>(1, vector_width);
  const auto grains = [&](std::size_t d) {
    return CeilDivide(std::max<std::int64_t>(1, shape[d]), split.grain[d]);
  };
  const auto use = [&](std::size_t d, std::int64_t parts) {
    split.parts[d] = std::clamp<std::int64_t>(parts, 1, std::min(left, grains(d)));
    left /= split.parts[d];
  };
  for (std::int64_t dim : order) {
    const auto d = static_cast<std::size_t>(dim);
    if (halo[d] == 0) use(d, left);
  }
  const auto part_bytes = [&] {
    std::int64_t bytes = bytes_per_element;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      bytes *= CeilDivide(grains(d), split.parts[d]) * split.grain[d] + halo[d];
    }
    return bytes;
  };
  for (std::int64_t dim : order) {
    const auto d = static_cast<std::size_t>(dim);
    if (halo[d] == 0) continue;
    std::int64_t parts = std::min(left, shape[d] / (2 * halo[d]));
    split.parts[d] = std::max<std::int64_t>(1, parts);
    while (part_bytes() > max_bytes && parts < std::min(left, grains(d))) split.parts[d] = ++parts;
    use(d, parts);
  }
  std::int64_t stride = 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    const auto d = static_cast<std::size_t>(order[i]);
    split.tile_stride[d] = stride;
    stride *= split.parts[d];
  }
  return split;
}

int ChannelsOf(const WindowGeometry& geometry, const View& view) {
  int channels = -1;
  for (const std::int64_t d : MemoryOrder(view))
    if (geometry.dim[d].size == 1) channels = static_cast<int>(d);
  return channels;
}

poplar::Tensor NewInOrder(poplar::Graph& graph, DType type, const Grid& grid,
                          const std::vector<std::int64_t>& order, const std::string& name) {
  Grid placement = grid;
  std::vector<unsigned> inverse(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto d = static_cast<std::size_t>(order[i]);
    placement.shape[i] = grid.shape[d];
    placement.parts[i] = grid.parts[d];
    placement.grain[i] = grid.grain[d];
    placement.tile_stride[i] = grid.tile_stride[d];
    inverse[d] = static_cast<unsigned>(i);
  }
  const Shape memory = placement.shape;
  Mapping mapping = NumElements(memory) == 0 ? Mapping() : Mapping(std::move(placement));
  return NewTensor(graph, type, memory, std::move(mapping), name).dimShuffle(inverse);
}

WindowRange OperandRange(const WindowDimension& w, std::int64_t begin, std::int64_t end,
                         std::int64_t operand_size) {
  const std::int64_t low = begin * w.stride - w.padding_low;
  const std::int64_t high = (end - 1) * w.stride + (w.size - 1) * w.window_dilation - w.padding_low;
  const std::int64_t first = std::clamp<std::int64_t>(CeilDivide(low, w.base_dilation), 0, operand_size);
  return {first, std::clamp<std::int64_t>(FloorDivide(high, w.base_dilation) + 1, first, operand_size)};
}

WindowRange WindowsMeeting(const WindowDimension& w, std::int64_t begin, std::int64_t end,
                           std::int64_t windows) {
  const std::int64_t low = CeilDivide(begin + w.padding_low - (w.size - 1) * w.window_dilation, w.stride);
  const std::int64_t high = FloorDivide(end - 1 + w.padding_low, w.stride) + 1;
  const std::int64_t first = std::clamp<std::int64_t>(low, 0, windows);
  return {first, std::clamp<std::int64_t>(high, first, windows)};
}

void WriteWindow(Writer& writer, const WindowGeometry& geometry) {
  writer.Write(geometry.rank);
  for (int d = 0; d < geometry.rank; ++d) {
    const WindowDimension& w = geometry.dim[d];
    writer.Write(w.size);
    writer.Write(w.stride);
    writer.Write(w.base_dilation);
    writer.Write(w.window_dilation);
    writer.Write(w.padding_low);
  }
}

WindowGeometry ReadWindow(Reader& reader) {
  constexpr std::int64_t kLargest = std::int64_t{1} << 40;
  WindowGeometry geometry;
  geometry.rank = static_cast<int>(reader.ReadInteger(0, kMaxRank));
  for (int d = 0; d < geometry.rank; ++d) {
    WindowDimension& w = geometry.dim[d];
    w.size = reader.ReadInteger(1, kLargest);
    w.stride = reader.ReadInteger(1, kLargest);
    w.base_dilation = reader.ReadInteger(1, kLargest);
    w.window_dilation = reader.ReadInteger(1, kLargest);
    w.padding_low = reader.ReadInteger(-kLargest, kLargest);
  }
  return geometry;
}

bool WindowsFit(const WindowGeometry& geometry, const Shape& operand, const Shape& out) {
  const auto rank = static_cast<std::size_t>(geometry.rank);
  if (operand.size() != rank || out.size() != rank) return false;
  for (std::size_t d = 0; d < rank; ++d) {
    const WindowDimension& w = geometry.dim[d];
    if (!IsModest({w.size, w.window_dilation}) || !IsModest({operand[d], w.base_dilation}) ||
        !IsModest({out[d] + 1, w.stride}))
      return false;
  }
  return true;
}

}  // namespace ipu_model
