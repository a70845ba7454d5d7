// poplar::Graph and its variables.
#include "core/graph/graph_impl.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <numeric>
#include <utility>

#include "codelets/class_names.h"
#include "core/graph/tensor_data.h"
#include "core/mapping/blocks.h"
#include "core/mapping/strides.h"
#include "core/target/target_model.h"
#include "ipu_model/Replicas.hpp"
#include "poplar/exceptions.hpp"
#include "poputil/TileMapping.hpp"

namespace ipu_model {

namespace {

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

void CheckMetadata(const GraphImpl& graph, const char* function, const poplar::Type& type,
                   const poplar::Tensor& metadata) {
  if (!type.requiresMetadata()) return;
  if (!metadata.valid() || metadata.elementType() != poplar::QUARTER_METADATA ||
      metadata.numElements() != 1) {
    throw poplar::tensor_metadata_error(
        std::string(function) + ": elements of QUARTER need metadata, a tensor of one QUARTER_METADATA");
  }
  CheckGraph(graph, metadata, function);
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
  if (std::find(codelets.begin(), codelets.end(), library) != codelets.end()) return;
  for (const codelet::Class* type : library->classes()) {
    if (const auto known = classes_.find(type->name); known != classes_.end()) {
      throw poplar::poplar_error("addCodelets: '" + library->source().name + "' has the vertex class '" +
                                 type->name + "', and so has '" +
                                 codelets[known->second.library]->source().name + "'");
    }
  }
  for (const codelet::Class* type : library->classes())
    classes_.emplace(type->name, KnownClass{type, codelets.size()});
  codelets.push_back(std::move(library));
}

const codelet::Class* GraphImpl::FindCodelet(const std::string& name,
                                             std::shared_ptr<const CodeletLibrary>* library) const {
  const auto known = classes_.find(CanonicalName(name));
  if (known == classes_.end()) return nullptr;
  *library = codelets[known->second.library];
  return known->second.type;
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
  CheckGraph(graph.impl(), tensor, debug_context.getPathName().c_str());
  View view;
  if (tensor.asView(&view)) {
    if (view.shape.size() <= static_cast<std::size_t>(kMaxRank)) return view;
    throw poplar::poplar_error(debug_context.getPathName() + ": a tensor of shape " + tensor.shapeToString() +
                               " has more than " + std::to_string(kMaxRank) + " dimensions");
  }
  const DType type = tensor.elementType().id();
  const auto elements = static_cast<std::int64_t>(tensor.numElements());
  const poplar::Tensor whole =
      NewTensor(graph, type, ToShape(tensor.shape()), LinearMapping(graph, type, elements),
                poplar::DebugContext(debug_context, "rearranged").getPathName());
  prog.add(poplar::program::Copy(tensor, whole, false, {debug_context, "rearrange"}));
  whole.asView(&view);
  return view;
}

std::uint32_t NextGraphNumber() {
  static std::atomic<std::uint32_t> last{0};
  return ++last;
}

void CheckGraph(const GraphImpl& graph, const poplar::Tensor& tensor, const char* method) {
  if (!tensor.valid())
    throw poplar::poplar_error(std::string(method) + ": the tensor is empty (default-constructed)");
  if (tensor.graph() == &graph) return;
  throw poplar::poplar_error(
      std::string(method) + ": the tensor of shape " + tensor.shapeToString() +
      (tensor.graph() == nullptr ? " is of a graph that is gone" : " is of another graph"));
}

poplar::Tensor NewTensor(poplar::Graph& graph, DType type, const Shape& shape, Mapping mapping,
                         const std::string& name) {
  GraphImpl& impl = graph.impl();
  return impl.TensorOf(impl.AddVariable(type, shape, name, std::move(mapping)));
}

}  // namespace ipu_model

namespace poplar {

using ipu_model::CloneKeepingAliases;
using ipu_model::GraphImpl;
using ipu_model::MappedInterval;
using ipu_model::Mapping;
using ipu_model::Shape;
using ipu_model::View;

bool Tensor::containsConstant() const {
  const GraphImpl& graph = ipu_model::GraphOf(*this, "Tensor::containsConstant");
  for (std::size_t i = 0; i < blocks().size(); ++i) {
    if (graph.variables[blocks()[i].variable()].constant != nullptr) return true;
  }
  return false;
}

Graph::Graph(const Target& target, replication_factor replicationFactor)
    : impl_(std::make_shared<GraphImpl>(ipu_model::TargetOfReplica(target, replicationFactor.value),
                                        replicationFactor.value)) {}
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(Graph&&) noexcept = default;
Graph::~Graph() = default;

const Target& Graph::getTarget() const { return virtual_ == nullptr ? impl_->target : virtual_->target; }
unsigned Graph::getReplicationFactor() const { return impl_->replication_factor; }

namespace {
[[noreturn]] void FailVirtualTile(unsigned tile, unsigned tiles) {
  throw poplar_error("createVirtualGraph: tile " + std::to_string(tile) + "; the graph has " +
                     std::to_string(tiles) + " tiles");
}
}  // namespace

Graph Graph::createVirtualGraph(unsigned lowerTile, unsigned upperTile) {
  const unsigned all = getTarget().getNumTiles();
  if (upperTile > all) FailVirtualTile(upperTile - 1, all);
  std::vector<unsigned> tiles;
  for (unsigned tile = lowerTile; tile < upperTile; ++tile) tiles.push_back(tile);
  return createVirtualGraph(tiles);
}

Graph Graph::createVirtualGraph(const std::vector<unsigned>& tiles) {
  std::vector<unsigned> physical;
  std::vector<bool> taken(getTarget().getNumTiles(), false);
  for (const unsigned tile : tiles) {
    if (tile >= taken.size()) FailVirtualTile(tile, getTarget().getNumTiles());
    if (taken[tile])
      throw poplar_error("createVirtualGraph: tile " + std::to_string(tile) + " is given twice");
    taken[tile] = true;
    physical.push_back(convertVirtualTileToPhysicalTile(tile));
  }
  if (physical.empty()) throw poplar_error("createVirtualGraph: a graph has at least one tile");
  const auto num_tiles = static_cast<unsigned>(physical.size());
  const unsigned per_ipu = impl_->target.getTilesPerIPU();
  const bool whole = num_tiles % per_ipu == 0;
  Target target =
      impl_->target.createVirtualTarget(whole ? num_tiles / per_ipu : 1, whole ? per_ipu : num_tiles);
  return Graph(impl_.pointer(),
               std::make_shared<const VirtualTiles>(VirtualTiles{std::move(target), std::move(physical)}));
}

Graph Graph::getTopLevelGraph() const { return Graph(impl_.pointer(), nullptr); }

unsigned Graph::convertVirtualTileToPhysicalTile(unsigned virtualTileId) const {
  if (virtualTileId >= getTarget().getNumTiles()) {
    throw poplar_error("convertVirtualTileToPhysicalTile: tile " + std::to_string(virtualTileId) +
                       "; the graph has " + std::to_string(getTarget().getNumTiles()) + " tiles");
  }
  return virtual_ == nullptr ? virtualTileId : virtual_->tiles[virtualTileId];
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
  Tensor metadata;
  if (type.requiresMetadata()) {
    metadata = addVariable(QUARTER_METADATA, {1}, {debugContext, "metadata"});
    setTileMapping(metadata, 0);
  }
  return addVariable(type, metadata, shape, debugContext);
}

Tensor Graph::addVariable(const Type& type, const Tensor& metadata, const std::vector<std::size_t>& shape,
                          const DebugContext& debugContext) {
  ipu_model::CheckMetadata(*impl_, "addVariable", type, metadata);
  const Tensor tensor = impl_->TensorOf(
      impl_->AddVariable(type.id(), Shape(shape.begin(), shape.end()), debugContext.getPathName()));
  return type.isVariant() ? tensor.withType(type, type.requiresMetadata() ? metadata : Tensor()) : tensor;
}

Tensor Graph::addVariable(const Type& type, const std::vector<std::size_t>& shape,
                          VariableMappingMethod mappingMethod, const DebugContext& debugContext) {
  const Tensor tensor = addVariable(type, shape, debugContext);
  if (mappingMethod == VariableMappingMethod::LINEAR) poputil::mapTensorLinearly(*this, tensor, 1, 1);
  return tensor;
}

Tensor Graph::addVariable(const Type& type, const Tensor& metadata, const std::vector<std::size_t>& shape,
                          VariableMappingMethod mappingMethod, const DebugContext& debugContext) {
  const Tensor tensor = addVariable(type, metadata, shape, debugContext);
  if (mappingMethod == VariableMappingMethod::LINEAR) poputil::mapTensorLinearly(*this, tensor, 1, 1);
  return tensor;
}

Tensor Graph::addConstant(const Type& type, const std::vector<std::size_t>& shape, const void* values,
                          const DebugContext& debugContext) {
  if (type.requiresMetadata()) {
    throw tensor_metadata_error("addConstant: '" + debugContext.getPathName() +
                                "': a constant of QUARTER is given with its metadata");
  }
  const auto id =
      impl_->AddVariable(type.id(), Shape(shape.begin(), shape.end()), debugContext.getPathName());
  ipu_model::Variable& variable = impl_->variables[id];
  const auto* bytes = static_cast<const unsigned char*>(values);
  if (bytes == nullptr && variable.num_elements > 0) {
    impl_->variables.pop_back();
    throw poplar_error("addConstant: '" + debugContext.getPathName() + "': the values are a null pointer");
  }
  const std::size_t size = static_cast<std::size_t>(variable.num_elements) * ipu_model::SizeOf(type.id());
  variable.constant = std::make_shared<const std::vector<unsigned char>>(bytes, bytes + size);
  const Tensor tensor = impl_->TensorOf(id);
  return type.isVariant() ? tensor.withType(type, {}) : tensor;
}

Tensor Graph::addConstantHalf(const Type& type, const std::vector<std::size_t>& shape,
                              const std::uint16_t* values, const DebugContext& debugContext) {
  if (type != HALF) throw poplar_error("Graph::addConstantHalf: the type is HALF, not " + type.toString());
  return addConstant(type, shape, static_cast<const void*>(values), debugContext);
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

Tensor Graph::clone(const Tensor& metadata, const Tensor& tensor, const DebugContext& debugContext,
                    TensorCloneMethod method) {
  return clone(tensor.elementType(), metadata, tensor, debugContext, method);
}

Tensor Graph::clone(const Type& type, const Tensor& metadata, const Tensor& tensor,
                    const DebugContext& debugContext, TensorCloneMethod method) {
  ipu_model::CheckGraph(*impl_, tensor, "Graph::clone");
  ipu_model::CheckMetadata(*impl_, "clone", type, metadata);
  const Tensor plain = type.requiresMetadata() ? tensor.withType(type, metadata) : tensor;
  return clone(type.requiresMetadata() ? UNSIGNED_CHAR : type, plain, debugContext, method)
      .withType(type, type.requiresMetadata() ? metadata : Tensor());
}

Tensor Graph::clone(const Type& type, const Tensor& tensor, const DebugContext& debugContext,
                    TensorCloneMethod method) {
  ipu_model::CheckGraph(*impl_, tensor, "Graph::clone");
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
  ipu_model::Grid reordered;
  if (ordered.asView(&view) &&
      ipu_model::IsWholeVariable(view, impl_->variables[view.variable].num_elements)) {
    mapping = impl_->variables[view.variable].mapping;
  } else if (ordered.asView(&view) &&
             ipu_model::ReorderedGrid(impl_->variables[view.variable].mapping, view, &reordered)) {
    mapping = Mapping(std::move(reordered));
  } else {
    std::vector<MappedInterval> intervals;
    const TileToTensorMapping tiles = getTopLevelGraph().getTileMapping(ordered, false);
    for (unsigned tile = 0; tile < tiles.size(); ++tile) {
      for (const Interval& i : tiles[tile]) {
        intervals.push_back({static_cast<std::int64_t>(i.begin()), static_cast<std::int64_t>(i.end()), tile});
      }
    }
    std::sort(intervals.begin(), intervals.end(),
              [](const MappedInterval& a, const MappedInterval& b) { return a.begin < b.begin; });
    if (!intervals.empty()) mapping = Mapping(std::move(intervals));
  }
  const Tensor result = impl_->TensorOf(
      impl_->AddVariable(type.id(), order_shape, debugContext.getPathName(), std::move(mapping)));
  const Tensor typed = type.isVariant() ? result.withType(type, {}) : result;
  return inverse.empty() ? typed : typed.dimShuffle(inverse);
}

namespace {

DataStream AddStream(GraphImpl* graph, const std::string& handle, const Type& type, std::size_t elements,
                     bool host_to_device) {
  for (const ipu_model::Stream& s : graph->streams) {
    if (s.name == handle) throw poplar_error("there are two streams with the name '" + handle + "'");
  }
  constexpr auto kMost = static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max());
  if (elements > kMost / ipu_model::SizeOf(type.id())) {
    throw overflow_error("the stream '" + handle + "' of " + std::to_string(elements) + " elements of " +
                         type.toString() + " is too large");
  }
  graph->streams.push_back({handle, type.id(), static_cast<std::int64_t>(elements), host_to_device});
  return DataStream(handle, type, elements, host_to_device, static_cast<unsigned>(graph->streams.size() - 1),
                    graph->number());
}

// How Poplar's hosts buffer and split transfers, which the model does not.
void CheckStreamOptions(const char* function, const OptionFlags& options) {
  for (const auto& [name, value] : options) {
    if (name != "bufferingDepth" && name != "splitLimit") {
      throw invalid_option(std::string(function) + ": there is no option '" + name +
                           "'; the options are: bufferingDepth, splitLimit");
    }
    if (value.empty() || value.find_first_not_of("0123456789") != std::string::npos)
      throw invalid_option(std::string(function) + ": the option '" + name + "' cannot be '" + value + "'");
  }
}

}  // namespace

DataStream Graph::addHostToDeviceFIFO(const std::string& handle, const Type& type, std::size_t elements,
                                      ReplicatedStreamMode mode, const OptionFlags& options) {
  CheckStreamOptions("addHostToDeviceFIFO", options);
  const DataStream stream = AddStream(impl_.get(), handle, type, elements, true);
  impl_->streams.back().broadcast = mode == ReplicatedStreamMode::BROADCAST;
  return stream;
}

DataStream Graph::addDeviceToHostFIFO(const std::string& handle, const Type& type, std::size_t elements,
                                      const OptionFlags& options) {
  CheckStreamOptions("addDeviceToHostFIFO", options);
  return AddStream(impl_.get(), handle, type, elements, false);
}

RemoteBuffer Graph::addRemoteBuffer(const std::string& handle, const Type& type, std::size_t numElements,
                                    std::size_t repeats, bool /*rearrangeOnHost*/, bool /*optimiseMemory*/) {
  for (const ipu_model::RemoteBuffer& b : impl_->remote_buffers) {
    if (b.name == handle) throw poplar_error("there are two remote buffers with the name '" + handle + "'");
  }
  if (repeats == 0) throw poplar_error("the remote buffer '" + handle + "' has no rows");
  ipu_model::CheckedElements(
      type.id(), {static_cast<std::int64_t>(repeats), static_cast<std::int64_t>(numElements)}, handle);
  impl_->remote_buffers.push_back(
      {handle, type.id(), static_cast<std::int64_t>(numElements), static_cast<std::int64_t>(repeats)});
  return RemoteBuffer(handle, type, numElements, repeats,
                      static_cast<unsigned>(impl_->remote_buffers.size() - 1), impl_->number());
}

void Graph::createHostWrite(const std::string& handle, const Tensor& tensor, bool /*rearrangeOnHost*/) {
  ipu_model::CheckGraph(*impl_, tensor, "Graph::createHostWrite");
  if (!tensor.isParallelWriteable()) {
    throw poplar_error("createHostWrite: " + tensor.getDebugStr() +
                       " has constants or elements that are the same in memory");
  }
  const DataStream stream =
      AddStream(impl_.get(), handle + ".write", tensor.elementType(), tensor.numElements(), true);
  impl_->handle_programs.push_back(program::Copy(stream, tensor, false, DebugContext(handle)));
  impl_->host_handles.push_back({handle, true, stream.index(), 0, {}});
  if (tensor.hasMetadata() && !tensor.getMetadata().containsConstant())
    createHostWrite(ipu_model::MetadataHandle(handle), tensor.getMetadata());
}

void Graph::createHostRead(const std::string& handle, const Tensor& tensor, bool /*rearrangeOnHost*/) {
  ipu_model::CheckGraph(*impl_, tensor, "Graph::createHostRead");
  const DataStream stream =
      AddStream(impl_.get(), handle + ".read", tensor.elementType(), tensor.numElements(), false);
  impl_->handle_programs.push_back(program::Copy(tensor, stream, false, DebugContext(handle)));
  impl_->host_handles.push_back({handle, false, stream.index(), 0, {}});
  if (tensor.hasMetadata()) createHostRead(ipu_model::MetadataHandle(handle), tensor.getMetadata());
}

Function Graph::addFunction(const program::Program& program) {
  (void)program.node();  // throws if it was moved from
  impl_->functions.push_back(program);
  return Function(static_cast<unsigned>(impl_->functions.size() - 1), impl_->number());
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
  const std::size_t known = impl_->streams.size();
  std::vector<DataStream> in, out;
  try {
    in = add_streams(inputs, false, &function.inputs);
    out = add_streams(outputs, true, &function.outputs);
  } catch (const poplar_error&) {
    impl_->streams.erase(impl_->streams.begin() + static_cast<std::ptrdiff_t>(known), impl_->streams.end());
    throw;
  }
  impl_->host_functions.push_back(std::move(function));
  return HostFunction(static_cast<unsigned>(impl_->host_functions.size() - 1), std::move(in), std::move(out),
                      impl_->number());
}

}  // namespace poplar
