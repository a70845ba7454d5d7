// Tile mappings of tensors: setting, asking, and the linear one of poputil.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/graph/graph_impl.h"
#include "core/mapping/stretches.h"
#include "core/mapping/strides.h"
#include "core/target/target_model.h"
#include "ipu_model/Blocks.hpp"
#include "ipu_model/FirstTile.hpp"
#include "ipu_model/IoTiles.hpp"
#include "ipu_model/Stacks.hpp"
#include "poplar/exceptions.hpp"
#include "poputil/TileMapping.hpp"

namespace ipu_model {

namespace {

// Maps flattened element intervals of the tensor, which are sorted and disjoint, to their tiles.
void MapElements(GraphImpl* graph, const poplar::Tensor& tensor,
                 const std::vector<MappedInterval>& intervals) {
  CheckGraph(*graph, tensor, "setTileMapping");
  View view;
  if (tensor.asView(&view)) {
    Variable& variable = graph->variables[view.variable];
    if (variable.num_elements == 1) {  // of a broadcast, which may have very many aliases of it
      variable.mapping = Mapping(std::vector<MappedInterval>{{0, 1, intervals.front().tile}});
      return;
    }
    if (IsWholeVariable(view, variable.num_elements) &&
        (variable.mapping.empty() || Mapping(intervals).Complete(variable.num_elements))) {
      variable.mapping = Mapping(intervals);
      return;
    }
  }
  std::vector<std::pair<VariableId, std::vector<MappedInterval>>> parts;
  std::size_t next = 0;
  ForEachRow(
      tensor, true,
      [&](std::int64_t position, VariableId id, std::int64_t element, std::int64_t length, std::int64_t) {
        if (parts.empty() || parts.back().first != id) parts.emplace_back(id, std::vector<MappedInterval>());
        while (next > 0 && intervals[next - 1].end > position) --next;
        while (next < intervals.size() && intervals[next].end <= position) ++next;
        for (std::size_t k = next; k < intervals.size() && intervals[k].begin < position + length; ++k) {
          const std::int64_t begin = std::max(intervals[k].begin, position);
          const std::int64_t end = std::min(intervals[k].end, position + length);
          parts.back().second.push_back(
              {element + begin - position, element + end - position, intervals[k].tile});
        }
      });
  for (auto& [id, added] : parts) {
    Variable& variable = graph->variables[id];
    variable.mapping.Overwrite(std::move(added), variable.num_elements);
  }
}

}  // namespace

Mapping LinearMapping(const poplar::Target& target, DType type, std::int64_t num_elements,
                      unsigned first_tile) {
  if (num_elements == 0) return {};
  const auto size = static_cast<std::int64_t>(SizeOf(type));
  return Mapping(Grid::Linear(num_elements, (128 + size - 1) / size, target.model().VectorWidth(type),
                              target.getNumTiles(), first_tile % target.getNumTiles()));
}

unsigned FirstTile(const poplar::Graph& graph) {
  return graph.impl().first_tile % graph.getTarget().getNumTiles();
}

Mapping LinearMapping(const poplar::Graph& graph, DType type, std::int64_t num_elements) {
  return LinearMapping(graph.getTarget(), type, num_elements, FirstTile(graph));
}

void StartLinearMappingsAt(poplar::Graph& graph, unsigned tile) { graph.impl().first_tile = tile; }

poplar::Graph GraphWithIoTiles(const poplar::Target& target, poplar::replication_factor replicas,
                               unsigned io_tiles) {
  poplar::Graph graph(target, replicas);
  if (io_tiles == 0) return graph;
  GraphImpl& impl = graph.impl();
  const unsigned all = impl.device.getNumTiles(), ipus = impl.device.getNumIPUs();
  if (ipus > 1 || io_tiles >= all) {
    throw poplar::poplar_error(std::to_string(io_tiles) + " tiles for input and output of " +
                               std::to_string(all) + " on " + std::to_string(ipus) +
                               " IPUs: a replica is on one IPU, and some of its tiles compute");
  }
  impl.target = impl.device.createVirtualTarget(1, all - io_tiles);
  return graph;
}

void MapToIoTiles(poplar::Graph& graph, const poplar::Tensor& tensor, unsigned io_tiles) {
  const GraphImpl& impl = graph.impl();
  const unsigned first = impl.target.getNumTiles();
  if (io_tiles == 0 || first + io_tiles != impl.device.getNumTiles())
    throw poplar::poplar_error("the graph does not have " + std::to_string(io_tiles) +
                               " tiles for input and output");
  const auto count = static_cast<std::int64_t>(tensor.numElements());
  const auto grain = static_cast<std::int64_t>(impl.target.getVectorWidth(tensor.elementType()));
  const std::int64_t vectors = (count + grain - 1) / grain;
  const std::int64_t share = (vectors + io_tiles - 1) / io_tiles * grain;
  std::vector<MappedInterval> intervals;
  unsigned tile = first;
  for (std::int64_t begin = 0; begin < count; begin += share)
    intervals.push_back({begin, std::min(begin + share, count), tile++});
  if (count > 0) MapElements(&graph.impl(), tensor, intervals);
}

}  // namespace ipu_model

namespace poplar {

using ipu_model::MappedInterval;
using ipu_model::View;

void Graph::setTileMapping(const Tensor& tensor, unsigned tile) {
  ipu_model::CheckGraph(*impl_, tensor, "setTileMapping");
  tile = physicalTile(tile, "a tensor of shape " + tensor.shapeToString());
  if (tensor.numElements() == 0) return;
  View view;
  if (tensor.asView(&view)) {
    ipu_model::Variable& variable = impl_->variables[view.variable];
    if (ipu_model::IsWholeVariable(view, variable.num_elements) &&
        variable.shape.size() <= ipu_model::kMaxRank) {
      // As a grid, so that operations find the parts of its dimensions.
      const ipu_model::Shape parts(variable.shape.size(), 1);
      variable.mapping =
          ipu_model::Mapping(ipu_model::Grid::Of(variable.shape, parts, impl_->target.getNumTiles(), tile));
      return;
    }
  }
  ipu_model::MapElements(impl_.get(), tensor, {{0, static_cast<std::int64_t>(tensor.numElements()), tile}});
}

void Graph::setTileMapping(const Tensor& tensor, const TileToTensorMapping& mapping) {
  ipu_model::CheckGraph(*impl_, tensor, "setTileMapping");
  std::vector<MappedInterval> intervals;
  for (unsigned number = 0; number < mapping.size(); ++number) {
    if (mapping[number].empty()) continue;
    const unsigned tile = physicalTile(number, "a tensor of shape " + tensor.shapeToString());
    for (const Interval& i : mapping[number]) {
      if (i.begin() > i.end() || i.end() > tensor.numElements()) {
        throw invalid_tile_mapping("setTileMapping: elements [" + std::to_string(i.begin()) + ", " +
                                   std::to_string(i.end()) + ") of a tensor of shape " +
                                   tensor.shapeToString());
      }
      if (i.size() > 0) {
        intervals.push_back({static_cast<std::int64_t>(i.begin()), static_cast<std::int64_t>(i.end()), tile});
      }
    }
  }
  std::sort(intervals.begin(), intervals.end(),
            [](const MappedInterval& a, const MappedInterval& b) { return a.begin < b.begin; });
  for (std::size_t i = 0; i < intervals.size(); ++i) {
    if (i > 0 && intervals[i].begin < intervals[i - 1].end) {
      throw invalid_tile_mapping("setTileMapping: element " + std::to_string(intervals[i].begin) +
                                 " of a tensor of shape " + tensor.shapeToString() + " is given to tiles " +
                                 std::to_string(intervals[i - 1].tile) + " and " +
                                 std::to_string(intervals[i].tile));
    }
  }
  if (!intervals.empty()) ipu_model::MapElements(impl_.get(), tensor, intervals);
}

Graph::TileToTensorMapping Graph::getTileMapping(const Tensor& tensor, StringRef tensorName) const {
  bool complete = false;
  TileToTensorMapping mapping = getTileMapping(tensor, &complete);
  if (!complete) {
    throw invalid_tile_mapping("getTileMapping: not all elements of " +
                               (tensorName.empty() ? tensor.getDebugStr() : tensorName.cloneAsString()) +
                               " are on a tile");
  }
  return mapping;
}

Graph::TileToTensorMapping Graph::getTileMapping(const Tensor& tensor, bool requireComplete) const {
  if (requireComplete) return getTileMapping(tensor, StringRef());
  bool complete = false;
  return getTileMapping(tensor, &complete);
}

Graph::TileToTensorMapping Graph::getTileMapping(const Tensor& tensor, bool* isComplete) const {
  ipu_model::CheckGraph(*impl_, tensor, "getTileMapping");
  TileToTensorMapping tiles(impl_->device.getNumTiles());
  std::size_t mapped = 0;
  MappedInterval at{0, 0, 0};
  std::optional<ipu_model::VariableId> of;  // the variable of `at`
  const auto add = [&](std::int64_t position, ipu_model::VariableId variable, std::int64_t element,
                       std::int64_t length, std::int64_t step) {
    for (std::int64_t count; length > 0; length -= count, position += count, element += count * step) {
      if (of != variable || element < at.begin || element >= at.end) {
        at = impl_->variables[variable].mapping.IntervalAt(element);
        of = variable;
      }
      // How many elements of the row are in the interval, from this one on.
      count = step > 0   ? (at.end - 1 - element) / step + 1
              : step < 0 ? (element - at.begin) / -step + 1
                         : length;
      count = std::min(count, length);
      if (at.tile == ipu_model::kNoTile) continue;
      const auto begin = static_cast<std::size_t>(position);
      const auto end = static_cast<std::size_t>(position + count);
      mapped += end - begin;
      std::vector<Interval>& intervals = tiles[at.tile];
      if (!intervals.empty() && intervals.back().end() == begin) {
        intervals.back() = Interval(intervals.back().begin(), end);
      } else {
        intervals.emplace_back(begin, end);
      }
    }
  };
  ipu_model::ForEachRow(tensor, false, add);
  if (virtual_ != nullptr) {
    TileToTensorMapping of_view;
    mapped = 0;
    for (const unsigned tile : virtual_->tiles) {
      of_view.push_back(std::move(tiles[tile]));
      for (const Interval& i : of_view.back()) mapped += i.size();
    }
    tiles = std::move(of_view);
  }
  if (isComplete != nullptr) *isComplete = mapped == tensor.numElements();
  return tiles;
}

}  // namespace poplar

namespace poputil {

namespace {

// Puts the flattened elements of the tensor where `mapping` says.
void SetMapping(poplar::Graph& graph, const poplar::Tensor& tensor, ipu_model::Mapping mapping) {
  ipu_model::View view;
  if (graph.isVirtual()) {
    poplar::Graph::TileToTensorMapping tiles(graph.getTarget().getNumTiles());
    mapping.ForEachInterval(0, static_cast<std::int64_t>(tensor.numElements()),
                            [&](std::int64_t begin, std::int64_t end, unsigned tile) {
                              tiles[tile].emplace_back(static_cast<std::size_t>(begin),
                                                       static_cast<std::size_t>(end));
                            });
    graph.setTileMapping(tensor, tiles);
    return;
  }
  ipu_model::CheckGraph(graph.impl(), tensor, "setTileMapping");
  if (tensor.asView(&view)) {
    ipu_model::Variable& variable = graph.impl().variables[view.variable];
    if (ipu_model::IsWholeVariable(view, variable.num_elements)) {
      variable.mapping = std::move(mapping);  // in closed form
      return;
    }
  }
  std::vector<ipu_model::MappedInterval> intervals;
  mapping.Intervals(0, static_cast<std::int64_t>(tensor.numElements()), &intervals);
  ipu_model::MapElements(&graph.impl(), tensor, intervals);
}

void MapLinearly(poplar::Graph& graph, const poplar::Tensor& tensor, std::int64_t min_per_tile,
                 std::int64_t grain) {
  const auto elements = static_cast<std::int64_t>(tensor.numElements());
  if (elements == 0) return;
  SetMapping(graph, tensor,
             ipu_model::Mapping(
                 ipu_model::Grid::Linear(elements, min_per_tile, grain, graph.getTarget().getNumTiles())));
}

std::int64_t DefaultMinimum(const poplar::Graph& graph, const poplar::Type& type) {
  const std::int64_t size = graph.getTarget().getTypeSize(type);
  return (128 + size - 1) / size;
}

}  // namespace

void mapTensorLinearly(poplar::Graph& graph, const poplar::Tensor& tensor) {
  MapLinearly(graph, tensor, DefaultMinimum(graph, tensor.elementType()),
              graph.getTarget().getVectorWidth(tensor.elementType()));
}

void mapTensorLinearly(poplar::Graph& graph, const poplar::Tensor& tensor, unsigned minElementsPerTile,
                       unsigned grainSize) {
  MapLinearly(graph, tensor, minElementsPerTile, std::max(grainSize, 1u));
}

poplar::Graph::TileToTensorMapping calcLinearTileMapping(const poplar::Graph& graph,
                                                         const poplar::Tensor& tensor) {
  poplar::Graph::TileToTensorMapping tiles(graph.getTarget().getNumTiles());
  const auto elements = static_cast<std::int64_t>(tensor.numElements());
  if (elements == 0) return tiles;
  const ipu_model::Mapping mapping =
      ipu_model::LinearMapping(graph.getTarget(), tensor.elementType().id(), elements);
  mapping.ForEachInterval(0, elements, [&](std::int64_t begin, std::int64_t end, unsigned tile) {
    tiles[tile].emplace_back(static_cast<std::size_t>(begin), static_cast<std::size_t>(end));
  });
  return tiles;
}

void mapTensorLinearlyWithOffset(poplar::Graph& graph, const poplar::Tensor& tensor, unsigned offset,
                                 bool ascendingOrder) {
  if (!ascendingOrder) {
    throw poplar::poplar_error(
        "mapTensorLinearlyWithOffset: the model maps in ascending order of the tiles only");
  }
  const auto elements = static_cast<std::int64_t>(tensor.numElements());
  if (elements == 0) return;
  SetMapping(graph, tensor,
             ipu_model::LinearMapping(graph.getTarget(), tensor.elementType().id(), elements, offset));
}

}  // namespace poputil

namespace ipu_model {

void MapInBlocks(poplar::Graph& graph, const poplar::Tensor& tensor, const std::vector<std::size_t>& parts) {
  const std::vector<std::size_t> shape = tensor.shape();
  const unsigned num_tiles = graph.getTarget().getNumTiles();
  std::size_t blocks = parts.size() == shape.size() ? 1 : 0;
  for (const std::size_t count : parts) blocks = blocks > num_tiles ? blocks : blocks * count;
  if (blocks == 0 || blocks > num_tiles) {
    throw poplar::poplar_error("MapInBlocks: " + std::to_string(blocks) + " blocks of a tensor of shape " +
                               tensor.shapeToString() + " on " + std::to_string(num_tiles) + " tiles");
  }
  if (tensor.numElements() == 0) return;
  Grid grid = Grid::Of(Shape(shape.begin(), shape.end()), Shape(parts.begin(), parts.end()), num_tiles);
  if (!shape.empty()) grid.grain.back() = graph.getTarget().getVectorWidth(tensor.elementType());
  poputil::SetMapping(graph, tensor, Mapping(std::move(grid)));
}

poplar::Tensor StackLike(poplar::Graph& graph, const poplar::Tensor& item, std::size_t count,
                         const std::string& name) {
  GraphImpl& impl = graph.impl();
  CheckGraph(impl, item, "StackLike");
  View view;
  const bool whole = item.asView(&view) && view.offset == 0 && AreDisjoint({view}) &&
                     view.num_elements() == impl.variables[view.variable].num_elements;
  if (!whole) {
    throw poplar::poplar_error("StackLike: the item of shape " + item.shapeToString() +
                               " is not a whole variable");
  }
  const Variable& like = impl.variables[view.variable];
  const auto items = static_cast<std::int64_t>(count);
  Mapping mapping;
  if (const Grid* of_item = like.mapping.grid(); of_item != nullptr && of_item->shape.size() < kMaxRank) {
    Grid grid = *of_item;
    grid.shape.insert(grid.shape.begin(), items);
    grid.parts.insert(grid.parts.begin(), 1);
    grid.grain.insert(grid.grain.begin(), 1);
    grid.tile_stride.insert(grid.tile_stride.begin(), 0);
    mapping = Mapping(std::move(grid));
  } else {
    std::vector<MappedInterval> of_one, intervals;
    like.mapping.Intervals(0, like.num_elements, &of_one);
    for (std::int64_t i = 0; i < items; ++i) {
      for (const MappedInterval& r : of_one)
        intervals.push_back({r.begin + i * like.num_elements, r.end + i * like.num_elements, r.tile});
    }
    mapping = Mapping(std::move(intervals));
  }
  view.strides.insert(view.strides.begin(), like.num_elements);
  view.shape.insert(view.shape.begin(), items);
  Shape shape = view.shape;
  view.variable = impl.AddVariable(view.type, shape, name, std::move(mapping));
  return poplar::Tensor::fromView(view, &impl);
}

}  // namespace ipu_model
