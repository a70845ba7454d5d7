// poplar::Graph and its variables.
#include "core/graph_impl.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "core/strides.h"
#include "core/target_model.h"
#include "core/tensor_data.h"
#include "poplar/exceptions.hpp"
#include "poputil/TileMapping.hpp"

namespace ipu_model {

namespace {

Shape ToShape(const std::vector<std::size_t>& shape) { return Shape(shape.begin(), shape.end()); }

// Returns the number of elements of a shape; throws if the rank or size is not supported.
std::int64_t CheckedElements(DType type, const Shape& shape, const std::string& name) {
  if (shape.size() > static_cast<std::size_t>(kMaxRank)) {
    throw poplar::poplar_error("variable '" + name + "' has " + std::to_string(shape.size()) +
                               " dimensions; at most " + std::to_string(kMaxRank) + " are possible");
  }
  const std::int64_t limit =
      std::numeric_limits<std::int64_t>::max() / static_cast<std::int64_t>(SizeOf(type));
  std::int64_t n = 1;
  for (std::int64_t d : shape) {
    if (d < 0 || (d > 0 && n > limit / d)) {
      throw poplar::poplar_error("variable '" + name + "' of shape " + ShapeString(shape) + " is too large");
    }
    n *= d;
  }
  return n;
}

// Calls f(tensor_element, variable, variable_element, length) for runs of the flattened tensor whose variable
// elements are consecutive. Where the innermost stride is not 1, runs have one element.
template <typename F>
void ForEachStretch(const poplar::Tensor& tensor, F&& f) {
  std::int64_t position = 0;
  for (const View& piece : tensor.pieces()) {
    const View v = Coalesced(piece);
    const std::int64_t n = v.num_elements();
    if (n == 0) continue;
    const bool dense = v.strides.back() == 1;
    const std::int64_t length = dense ? v.shape.back() : 1;
    const std::size_t rank = v.shape.size() - (dense ? 1 : 0);
    Shape index(rank, 0);
    std::int64_t element = v.offset;
    for (std::int64_t done = 0; done < n; done += length) {
      f(position + done, v.variable, element, length);
      for (std::size_t d = rank; d-- > 0;) {
        element += v.strides[d];
        if (++index[d] < v.shape[d]) break;
        element -= v.strides[d] * v.shape[d];
        index[d] = 0;
      }
    }
    position += n;
  }
}

// Replaces the runs of `mapping` inside [begin, end) by `runs`; keeps the runs outside.
void Overwrite(std::vector<Run>* mapping, std::vector<Run> runs) {
  std::sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) { return a.begin < b.begin; });
  std::vector<Run> kept;
  std::size_t next = 0;
  for (Run r : *mapping) {
    while (next < runs.size() && runs[next].end <= r.begin) ++next;
    for (std::size_t k = next; k < runs.size() && runs[k].begin < r.end && r.begin < r.end; ++k) {
      if (runs[k].begin > r.begin) kept.push_back({r.begin, runs[k].begin, r.tile});
      r.begin = std::max(r.begin, runs[k].end);
    }
    if (r.begin < r.end) kept.push_back(r);
  }
  kept.insert(kept.end(), runs.begin(), runs.end());
  std::sort(kept.begin(), kept.end(), [](const Run& a, const Run& b) { return a.begin < b.begin; });
  mapping->clear();
  for (const Run& r : kept) {
    if (!mapping->empty() && mapping->back().end == r.begin && mapping->back().tile == r.tile) {
      mapping->back().end = r.end;
    } else {
      mapping->push_back(r);
    }
  }
}

// Maps flattened element intervals of the tensor, which are sorted and disjoint, to their tiles.
void MapElements(GraphImpl* graph, const poplar::Tensor& tensor, const std::vector<Run>& runs) {
  View view;
  if (tensor.asView(&view)) {
    Variable& variable = graph->variables[view.variable];
    if (IsWholeVariable(view, variable.num_elements) &&
        (variable.mapping.empty() || Mapping(runs).Complete(variable.num_elements))) {
      variable.mapping = Mapping(runs);
      return;
    }
  }
  std::vector<std::pair<VariableId, std::vector<Run>>> parts;
  std::size_t next = 0;
  ForEachStretch(
      tensor, [&](std::int64_t position, VariableId id, std::int64_t element, std::int64_t length) {
        if (parts.empty() || parts.back().first != id) parts.emplace_back(id, std::vector<Run>());
        while (next > 0 && runs[next - 1].end > position) --next;
        while (next < runs.size() && runs[next].end <= position) ++next;
        for (std::size_t k = next; k < runs.size() && runs[k].begin < position + length; ++k) {
          const std::int64_t begin = std::max(runs[k].begin, position);
          const std::int64_t end = std::min(runs[k].end, position + length);
          parts.back().second.push_back({element + begin - position, element + end - position, runs[k].tile});
        }
      });
  for (auto& [id, added] : parts) {
    Variable& variable = graph->variables[id];
    std::vector<Run> all;
    variable.mapping.Runs(0, variable.num_elements, &all);
    Overwrite(&all, std::move(added));
    variable.mapping = Mapping(std::move(all));
  }
}

void CheckMetadata(const char* function, const poplar::Type& type, const poplar::Tensor& metadata) {
  if (!type.requiresMetadata()) return;
  if (!metadata.valid() || metadata.elementType() != poplar::QUARTER_METADATA ||
      metadata.numElements() != 1) {
    throw poplar::poplar_error(std::string(function) +
                               ": elements of QUARTER need metadata, a tensor of one QUARTER_METADATA");
  }
}

}  // namespace

VariableId GraphImpl::AddVariable(DType type, const Shape& shape, const std::string& name, Mapping mapping) {
  Variable variable;
  variable.type = type;
  variable.shape = shape;
  variable.num_elements = CheckedElements(type, shape, name);
  variable.name = name;
  variable.mapping = std::move(mapping);
  variables.push_back(std::move(variable));
  return static_cast<VariableId>(variables.size() - 1);
}

void GraphImpl::AddCodelets(std::shared_ptr<const CodeletLibrary> library) {
  for (const auto& known : codelets) {
    if (known == library) return;
    for (const codelet::Class* type : library->classes()) {
      if (known->Find(type->name) == nullptr) continue;
      throw poplar::poplar_error("addCodelets: '" + library->source().name + "' has the vertex class '" +
                                 type->name + "', and so has '" + known->source().name + "'");
    }
  }
  codelets.push_back(std::move(library));
}

const codelet::Class* GraphImpl::FindCodelet(const std::string& name,
                                             std::shared_ptr<const CodeletLibrary>* library) const {
  for (const auto& known : codelets) {
    const codelet::Class* const type = known->Find(name);
    if (type == nullptr) continue;
    *library = known;
    return type;
  }
  return nullptr;
}

poplar::Tensor GraphImpl::TensorOf(VariableId id) const {
  const Variable& variable = variables.at(id);
  View view;
  view.variable = id;
  view.type = variable.type;
  view.shape = variable.shape;
  view.strides = RowMajorStrides(variable.shape);
  return poplar::Tensor::fromView(view, this);
}

View StridedView(poplar::Graph& graph, const poplar::Tensor& tensor, poplar::program::Sequence& prog,
                 const poplar::DebugContext& debug_context) {
  View view;
  if (tensor.asView(&view)) return view;
  const DType type = tensor.elementType().id();
  const auto elements = static_cast<std::int64_t>(tensor.numElements());
  const poplar::Tensor whole =
      NewTensor(graph, type, ToShape(tensor.shape()), LinearMapping(graph.getTarget(), type, elements),
                poplar::DebugContext(debug_context, "rearranged").getPathName());
  prog.add(poplar::program::Copy(tensor, whole, false, {debug_context, "rearrange"}));
  whole.asView(&view);
  return view;
}

poplar::Tensor NewTensor(poplar::Graph& graph, DType type, const Shape& shape, Mapping mapping,
                         const std::string& name) {
  GraphImpl& impl = graph.impl();
  return impl.TensorOf(impl.AddVariable(type, shape, name, std::move(mapping)));
}

Mapping LinearMapping(const poplar::Target& target, DType type, std::int64_t num_elements,
                      unsigned first_tile) {
  if (num_elements == 0) return {};
  const auto size = static_cast<std::int64_t>(SizeOf(type));
  return Mapping(Partition::Linear(num_elements, (128 + size - 1) / size, target.model().VectorWidth(type),
                                   target.getNumTiles(), first_tile % target.getNumTiles()));
}

}  // namespace ipu_model

namespace poplar {

using ipu_model::CloneKeepingAliases;
using ipu_model::GraphImpl;
using ipu_model::Mapping;
using ipu_model::Run;
using ipu_model::Shape;
using ipu_model::View;

bool Tensor::containsConstant() const {
  const auto* graph = static_cast<const GraphImpl*>(this->graph());
  return std::any_of(blocks().begin(), blocks().end(),
                     [&](const Block& b) { return graph->variables[b.view.variable].constant != nullptr; });
}

Graph::Graph(const Target& target, replication_factor replicationFactor)
    : impl_(std::make_shared<GraphImpl>(target, replicationFactor.value)) {
  if (replicationFactor.value == 0) throw poplar_error("Graph: a graph has at least one replica, not 0");
}
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(Graph&&) noexcept = default;
Graph::~Graph() = default;

const Target& Graph::getTarget() const { return virtual_ == nullptr ? impl_->target : virtual_->target; }
unsigned Graph::getReplicationFactor() const { return impl_->replication_factor; }

Graph Graph::createVirtualGraph(unsigned lowerTile, unsigned upperTile) {
  std::vector<unsigned> tiles;
  for (unsigned tile = lowerTile; tile < upperTile; ++tile) tiles.push_back(tile);
  return createVirtualGraph(tiles);
}

Graph Graph::createVirtualGraph(const std::vector<unsigned>& tiles) {
  std::vector<unsigned> physical;
  for (const unsigned tile : tiles) {
    if (tile >= getTarget().getNumTiles()) {
      throw poplar_error("createVirtualGraph: tile " + std::to_string(tile) + "; the graph has " +
                         std::to_string(getTarget().getNumTiles()) + " tiles");
    }
    physical.push_back(convertVirtualTileToPhysicalTile(tile));
  }
  if (physical.empty()) throw poplar_error("createVirtualGraph: a graph has at least one tile");
  const auto num_tiles = static_cast<unsigned>(physical.size());
  const unsigned per_ipu = impl_->target.getTilesPerIPU();
  const bool whole = num_tiles % per_ipu == 0;
  Target target =
      impl_->target.createVirtualTarget(whole ? num_tiles / per_ipu : 1, whole ? per_ipu : num_tiles);
  return Graph(impl_,
               std::make_shared<const VirtualTiles>(VirtualTiles{std::move(target), std::move(physical)}));
}

Graph Graph::getTopLevelGraph() const { return Graph(impl_, nullptr); }

unsigned Graph::convertVirtualTileToPhysicalTile(unsigned virtualTileId) const {
  return virtual_ == nullptr ? virtualTileId : virtual_->tiles.at(virtualTileId);
}

unsigned Graph::physicalTile(unsigned tile, const std::string& what) const {
  if (tile >= getTarget().getNumTiles()) {
    throw invalid_tile_mapping("setTileMapping: tile " + std::to_string(tile) + " for " + what +
                               "; the target has " + std::to_string(getTarget().getNumTiles()) + " tiles");
  }
  return convertVirtualTileToPhysicalTile(tile);
}

Tensor Graph::addVariable(const Type& type, const std::vector<std::size_t>& shape,
                          const DebugContext& debugContext) {
  return addVariable(type, Tensor(), shape, debugContext);
}

Tensor Graph::addVariable(const Type& type, const Tensor& metadata, const std::vector<std::size_t>& shape,
                          const DebugContext& debugContext) {
  ipu_model::CheckMetadata("addVariable", type, metadata);
  const Tensor tensor = impl_->TensorOf(
      impl_->AddVariable(type.id(), Shape(shape.begin(), shape.end()), debugContext.getPathName()));
  return type.isVariant() ? tensor.withType(type, type.requiresMetadata() ? metadata : Tensor()) : tensor;
}

Tensor Graph::addVariable(const Type& type, const std::vector<std::size_t>& shape,
                          VariableMappingMethod mappingMethod, const DebugContext& debugContext) {
  return addVariable(type, Tensor(), shape, mappingMethod, debugContext);
}

Tensor Graph::addVariable(const Type& type, const Tensor& metadata, const std::vector<std::size_t>& shape,
                          VariableMappingMethod mappingMethod, const DebugContext& debugContext) {
  const Tensor tensor = addVariable(type, metadata, shape, debugContext);
  if (mappingMethod == VariableMappingMethod::LINEAR) poputil::mapTensorLinearly(*this, tensor);
  return tensor;
}

Tensor Graph::addConstant(const Type& type, const std::vector<std::size_t>& shape, const void* values,
                          const DebugContext& debugContext) {
  const auto id =
      impl_->AddVariable(type.id(), Shape(shape.begin(), shape.end()), debugContext.getPathName());
  ipu_model::Variable& variable = impl_->variables[id];
  const auto* bytes = static_cast<const unsigned char*>(values);
  const std::size_t size = static_cast<std::size_t>(variable.num_elements) * ipu_model::SizeOf(type.id());
  variable.constant = std::make_shared<const std::vector<unsigned char>>(bytes, bytes + size);
  const Tensor tensor = impl_->TensorOf(id);
  return type.isVariant() ? tensor.withType(type, {}) : tensor;
}

Tensor Graph::addReplicationIndexConstant(const DebugContext& debugContext) {
  const std::uint32_t zero = 0;
  const Tensor index = addConstant(UNSIGNED_INT, {}, &zero, debugContext);
  View view;
  index.asView(&view);
  impl_->variables[view.variable].is_replica_index = true;
  return index;
}

Tensor Graph::clone(const Tensor& tensor, const DebugContext& debugContext, TensorCloneMethod method) {
  return clone(tensor.elementType(), tensor, debugContext, method);
}

Tensor Graph::clone(const Type& type, const Tensor& metadata, const Tensor& tensor,
                    const DebugContext& debugContext, TensorCloneMethod method) {
  ipu_model::CheckMetadata("clone", type, metadata);
  const Tensor plain = type.requiresMetadata() ? tensor.withType(type, metadata) : tensor;
  return clone(type.requiresMetadata() ? UNSIGNED_CHAR : type, plain, debugContext, method)
      .withType(type, type.requiresMetadata() ? metadata : Tensor());
}

Tensor Graph::clone(const Type& type, const Tensor& tensor, const DebugContext& debugContext,
                    TensorCloneMethod method) {
  if (!tensor.valid()) throw poplar_error("Graph::clone: the tensor is empty (default-constructed)");
  if (type.requiresMetadata()) {
    if (!tensor.hasMetadata())
      throw poplar_error("Graph::clone: " + tensor.getDebugStr() + " has no metadata for a QUARTER");
    return clone(type, clone(tensor.getMetadata(), {debugContext, "metadata"}), tensor, debugContext, method);
  }
  const bool aliases = method == TensorCloneMethod::PRESERVE_ORDER_AND_ALIASES ||
                       method == TensorCloneMethod::GATHER_AND_PRESERVE_TILE_ORDER_AND_ALIASES;
  if (tensor.numElements() > 0 && (aliases || (method == TensorCloneMethod::PRESERVE_ORDER_UNLESS_ALIASES &&
                                               tensor.blocks().size() > 1 && !tensor.containsAliases()))) {
    return CloneKeepingAliases(this, type, tensor, debugContext.getPathName(),
                               method == TensorCloneMethod::GATHER_AND_PRESERVE_TILE_ORDER_AND_ALIASES);
  }
  View view;
  Shape order_shape(tensor.shape().begin(), tensor.shape().end());
  std::vector<unsigned> inverse;  // from memory order to the tensor's dimensions
  Tensor ordered = tensor;
  if (method == TensorCloneMethod::PRESERVE_ORDER_UNLESS_ALIASES && tensor.asView(&view)) {
    // Keep the order in memory: the dimension with the largest stride is the outermost.
    std::vector<unsigned> permutation(view.shape.size());
    std::iota(permutation.begin(), permutation.end(), 0u);
    std::stable_sort(permutation.begin(), permutation.end(), [&](unsigned a, unsigned b) {
      return view.strides[a] > view.strides[b] && view.shape[a] > 1 && view.shape[b] > 1;
    });
    const Tensor shuffled = tensor.dimShuffle(permutation);
    View dense;
    if (shuffled.asView(&dense) && ipu_model::IsRowMajorContiguous(dense)) {
      ordered = shuffled;
      order_shape = dense.shape;
      view = dense;
      inverse.resize(permutation.size());
      for (unsigned d = 0; d < permutation.size(); ++d) inverse[permutation[d]] = d;
    }
  }
  Mapping mapping;
  ipu_model::Partition reordered;
  if (ordered.asView(&view) &&
      ipu_model::IsWholeVariable(view, impl_->variables[view.variable].num_elements)) {
    mapping = impl_->variables[view.variable].mapping;
  } else if (ordered.asView(&view) &&
             ipu_model::ReorderedPartition(impl_->variables[view.variable].mapping, view, &reordered)) {
    mapping = Mapping(std::move(reordered));
  } else {
    std::vector<Run> runs;
    const TileToTensorMapping tiles = getTopLevelGraph().getTileMapping(ordered, false);
    for (unsigned tile = 0; tile < tiles.size(); ++tile) {
      for (const Interval& i : tiles[tile]) {
        runs.push_back({static_cast<std::int64_t>(i.begin()), static_cast<std::int64_t>(i.end()), tile});
      }
    }
    std::sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) { return a.begin < b.begin; });
    if (!runs.empty()) mapping = Mapping(std::move(runs));
  }
  const Tensor result = impl_->TensorOf(
      impl_->AddVariable(type.id(), order_shape, debugContext.getPathName(), std::move(mapping)));
  const Tensor typed = type.isVariant() ? result.withType(type, {}) : result;
  return inverse.empty() ? typed : typed.dimShuffle(inverse);
}

void Graph::setTileMapping(const Tensor& tensor, unsigned tile) {
  tile = physicalTile(tile, "a tensor of shape " + tensor.shapeToString());
  if (tensor.numElements() == 0) return;
  ipu_model::MapElements(impl_.get(), tensor, {{0, static_cast<std::int64_t>(tensor.numElements()), tile}});
}

void Graph::setTileMapping(const Tensor& tensor, const TileToTensorMapping& mapping) {
  std::vector<Run> runs;
  for (unsigned number = 0; number < mapping.size(); ++number) {
    if (mapping[number].empty()) continue;
    const unsigned tile = physicalTile(number, "a tensor of shape " + tensor.shapeToString());
    for (const Interval& i : mapping[number]) {
      if (i.size() > 0) {
        runs.push_back({static_cast<std::int64_t>(i.begin()), static_cast<std::int64_t>(i.end()), tile});
      }
    }
  }
  std::sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) { return a.begin < b.begin; });
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (static_cast<std::size_t>(runs[i].end) > tensor.numElements()) {
      throw invalid_tile_mapping("setTileMapping: element " + std::to_string(runs[i].end - 1) +
                                 " of a tensor of shape " + tensor.shapeToString());
    }
    if (i > 0 && runs[i].begin < runs[i - 1].end) {
      throw invalid_tile_mapping("setTileMapping: element " + std::to_string(runs[i].begin) +
                                 " of a tensor of shape " + tensor.shapeToString() + " is given to tiles " +
                                 std::to_string(runs[i - 1].tile) + " and " + std::to_string(runs[i].tile));
    }
  }
  if (!runs.empty()) ipu_model::MapElements(impl_.get(), tensor, runs);
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
  TileToTensorMapping tiles(impl_->target.getNumTiles());
  std::size_t mapped = 0;
  std::vector<Run> runs;
  ipu_model::ForEachStretch(tensor, [&](std::int64_t position, ipu_model::VariableId id, std::int64_t element,
                                        std::int64_t length) {
    runs.clear();
    impl_->variables[id].mapping.Runs(element, element + length, &runs);
    for (const Run& r : runs) {
      const auto begin = static_cast<std::size_t>(position + r.begin - element);
      const auto end = static_cast<std::size_t>(position + r.end - element);
      mapped += end - begin;
      std::vector<Interval>& intervals = tiles[r.tile];
      if (!intervals.empty() && intervals.back().end() == begin) {
        intervals.back() = Interval(intervals.back().begin(), end);
      } else {
        intervals.emplace_back(begin, end);
      }
    }
  });
  if (virtual_ != nullptr) {
    TileToTensorMapping of_view;
    mapped = 0;
    for (const unsigned tile : virtual_->tiles) {
      of_view.push_back(std::move(tiles[tile]));
      for (const Interval& i : of_view.back()) mapped += i.size();
    }
    tiles = std::move(of_view);
  }
  *isComplete = mapped == tensor.numElements();
  return tiles;
}

namespace {

DataStream AddStream(GraphImpl* graph, const std::string& handle, const Type& type, std::size_t elements,
                     bool host_to_device) {
  for (const ipu_model::Stream& s : graph->streams) {
    if (s.name == handle) throw poplar_error("there are two streams with the name '" + handle + "'");
  }
  graph->streams.push_back({handle, type.id(), static_cast<std::int64_t>(elements), host_to_device});
  return DataStream(handle, type, elements, host_to_device, static_cast<unsigned>(graph->streams.size() - 1));
}

}  // namespace

DataStream Graph::addHostToDeviceFIFO(const std::string& handle, const Type& type, std::size_t elements) {
  return AddStream(impl_.get(), handle, type, elements, true);
}

DataStream Graph::addDeviceToHostFIFO(const std::string& handle, const Type& type, std::size_t elements) {
  return AddStream(impl_.get(), handle, type, elements, false);
}

void Graph::createHostWrite(const std::string& handle, const Tensor& tensor, bool /*rearrangeOnHost*/) {
  const DataStream stream =
      AddStream(impl_.get(), handle + ".write", tensor.elementType(), tensor.numElements(), true);
  impl_->handle_programs.push_back(program::Copy(stream, tensor, false, DebugContext(handle)));
  impl_->host_handles.push_back({handle, true, stream.index(), 0, {}});
}

void Graph::createHostRead(const std::string& handle, const Tensor& tensor, bool /*rearrangeOnHost*/) {
  const DataStream stream =
      AddStream(impl_.get(), handle + ".read", tensor.elementType(), tensor.numElements(), false);
  impl_->handle_programs.push_back(program::Copy(tensor, stream, false, DebugContext(handle)));
  impl_->host_handles.push_back({handle, false, stream.index(), 0, {}});
}

Function Graph::addFunction(const program::Program& program) {
  impl_->functions.push_back(program);
  return Function(static_cast<unsigned>(impl_->functions.size() - 1));
}

HostFunction Graph::addHostFunction(const std::string& handle,
                                    const std::vector<HostFunctionArgument>& inputs,
                                    const std::vector<HostFunctionArgument>& outputs) {
  for (const ipu_model::HostFunction& f : impl_->host_functions) {
    if (f.name == handle) throw poplar_error("there are two host functions with the name '" + handle + "'");
  }
  ipu_model::HostFunction function{handle, {}, {}};
  const auto add_streams = [&](const std::vector<HostFunctionArgument>& arguments, bool host_to_device,
                               std::vector<std::uint32_t>* indices) {
    std::vector<DataStream> streams;
    for (const auto& [type, elements] : arguments) {
      const std::string name =
          handle + (host_to_device ? ".output" : ".input") + std::to_string(streams.size());
      streams.push_back(AddStream(impl_.get(), name, type, elements, host_to_device));
      indices->push_back(streams.back().index());
    }
    return streams;
  };
  std::vector<DataStream> in = add_streams(inputs, false, &function.inputs);
  std::vector<DataStream> out = add_streams(outputs, true, &function.outputs);
  impl_->host_functions.push_back(std::move(function));
  return HostFunction(static_cast<unsigned>(impl_->host_functions.size() - 1), std::move(in), std::move(out));
}

}  // namespace poplar

namespace poputil {

namespace {

// Puts the flattened elements of the tensor where `mapping` says.
void SetMapping(poplar::Graph& graph, const poplar::Tensor& tensor, ipu_model::Mapping mapping) {
  ipu_model::View view;
  if (graph.isVirtual()) {
    poplar::Graph::TileToTensorMapping tiles(graph.getTarget().getNumTiles());
    mapping.ForEachRun(0, static_cast<std::int64_t>(tensor.numElements()),
                       [&](std::int64_t begin, std::int64_t end, unsigned tile) {
                         tiles[tile].emplace_back(static_cast<std::size_t>(begin),
                                                  static_cast<std::size_t>(end));
                       });
    graph.setTileMapping(tensor, tiles);
    return;
  }
  if (tensor.asView(&view)) {
    ipu_model::Variable& variable = graph.impl().variables[view.variable];
    if (ipu_model::IsWholeVariable(view, variable.num_elements)) {
      variable.mapping = std::move(mapping);  // in closed form
      return;
    }
  }
  std::vector<ipu_model::Run> runs;
  mapping.Runs(0, static_cast<std::int64_t>(tensor.numElements()), &runs);
  ipu_model::MapElements(&graph.impl(), tensor, runs);
}

void MapLinearly(poplar::Graph& graph, const poplar::Tensor& tensor, std::int64_t min_per_tile,
                 std::int64_t grain) {
  const auto elements = static_cast<std::int64_t>(tensor.numElements());
  if (elements == 0) return;
  SetMapping(graph, tensor,
             ipu_model::Mapping(ipu_model::Partition::Linear(elements, min_per_tile, grain,
                                                             graph.getTarget().getNumTiles())));
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
  mapping.ForEachRun(0, elements, [&](std::int64_t begin, std::int64_t end, unsigned tile) {
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
