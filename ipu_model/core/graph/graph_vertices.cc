// poplar::Graph's functions for codelets, compute sets, vertices and their fields.
#include <algorithm>
#include <sstream>
#include <utility>

#include "codelets/class_names.h"
#include "codelets/nearest_names.h"
#include "core/graph/codelet_file.h"
#include "core/graph/compute_set.h"
#include "core/graph/graph_impl.h"
#include "core/graph/runtime_vertices.h"
#include "poplar/Graph.hpp"
#include "poplar/exceptions.hpp"

namespace poplar {

using ipu_model::ComputeSetData;
using ipu_model::DType;
using ipu_model::FieldState;
using ipu_model::GraphImpl;
using ipu_model::NameOfVertex;
using ipu_model::Number;
using ipu_model::VertexState;
using ipu_model::codelet::Field;

const FieldData& VertexIntrospector::getFieldInfo(const std::string& name) const {
  for (const FieldData& field : fields_) {
    if (field.name() == name) return field;
  }
  throw unknown_field("the vertex class '" + type_ + "' has no field '" + name + "'");
}

unsigned ComputeSet::getId() const { return data_ == nullptr ? 0 : data_->id; }

bool Graph::addCodelets(const std::string& path, CodeletFileType type, const std::string& compileFlags) {
  const std::string ending = path.substr(std::min(path.rfind('.'), path.size()));
  if ((type == CodeletFileType::Auto && ending == ".gp") || type == CodeletFileType::Object) {
    for (auto& library : ipu_model::LoadCodeletFile(path)) impl_->AddCodelets(std::move(library));
    return true;
  }
  if ((type != CodeletFileType::Auto && type != CodeletFileType::CppSource) ||
      (type == CodeletFileType::Auto && (ending == ".S" || ending == ".s"))) {
    throw poplar_error("addCodelets: '" + path + "' is not C++ source, which is all that the model compiles");
  }
  impl_->AddCodelets(ipu_model::CodeletLibrary::Compile(ipu_model::ReadCodeletFile(path, compileFlags)));
  return true;
}

bool Graph::addCodelets(const std::vector<std::string>& paths, const std::string& compileFlags) {
  for (const std::string& path : paths) addCodelets(path, CodeletFileType::Auto, compileFlags);
  return true;
}

bool Graph::addCodelets(std::istream& stream, const std::string& compileFlags, CodeletFileType type) {
  if (type != CodeletFileType::CppSource && type != CodeletFileType::Auto)
    throw poplar_error("addCodelets: the stream is not C++ source, which is all that the model compiles");
  std::ostringstream text;
  text << stream.rdbuf();
  impl_->AddCodelets(
      ipu_model::CodeletLibrary::Compile(ipu_model::ReadCodeletText(text.str(), compileFlags)));
  return true;
}

bool Graph::addCodelets(std::stringstream& stream, const std::string& compileFlags, CodeletFileType type) {
  return addCodelets(static_cast<std::istream&>(stream), compileFlags, type);
}

bool Graph::hasCodelet(const std::string& vertexType) const {
  ipu_model::AddRuntimeVertices(impl_.get(), vertexType);
  std::shared_ptr<const ipu_model::CodeletLibrary> library;
  return impl_->FindCodelet(vertexType, &library) != nullptr;
}

namespace {

constexpr std::size_t kShownClasses = 10;

// For messages: the classes that the graph has, or those of them that are most like the name.
std::string KnownClasses(const ipu_model::GraphImpl& graph, const std::string& name) {
  std::vector<std::string> names;
  for (const auto& library : graph.codelets) {
    for (const auto* type : library->classes()) names.emplace_back(type->name);
  }
  if (names.empty()) return "known are: none; call Graph::addCodelets";
  std::string text = "known are: ";
  if (names.size() > kShownClasses) {
    text = "of " + std::to_string(names.size()) + " that are known these are nearest: ";
    names = ipu_model::NearestNames(ipu_model::CanonicalName(name), std::move(names), kShownClasses);
  }
  for (std::size_t i = 0; i < names.size(); ++i) text += (i > 0 ? ", " : "") + names[i];
  return text;
}

}  // namespace

namespace {
void CheckGraph(const GraphImpl& graph, const ComputeSetData& set, const char* function) {
  if (set.graph != graph.number())
    throw poplar_error(std::string(function) + ": the compute set '" + set.name + "' is of another graph");
}
}  // namespace

ComputeSet Graph::addComputeSet(const DebugContext& debugContext) {
  auto data = std::make_shared<ComputeSetData>();
  data->id = impl_->num_compute_sets++;
  data->graph = impl_->number();
  data->name = debugContext.getPathName();
  if (data->name.empty()) data->name = std::to_string(data->id);
  return ComputeSet(std::move(data));
}

VertexRef Graph::addVertex(const ComputeSet& cs, const std::string& vertexType,
                           const DebugContext& debugContext) {
  if (cs.data() == nullptr) throw poplar_error("addVertex: the compute set is empty (default-constructed)");
  CheckGraph(*impl_, *cs.data(), "addVertex");
  if (cs.data()->program != nullptr)
    throw poplar_error("addVertex: the compute set '" + cs.data()->name + "' is a library function's");
  ipu_model::AddRuntimeVertices(impl_.get(), vertexType);
  VertexState vertex;
  vertex.type = impl_->FindCodelet(vertexType, &vertex.library);
  if (vertex.type == nullptr) {
    throw unknown_vertex_type("addVertex: there is no vertex class '" + vertexType + "'; " +
                              KnownClasses(*impl_, vertexType));
  }
  vertex.name = debugContext.getPathName();
  vertex.fields.resize(vertex.type->num_fields);
  cs.data()->vertices.push_back(std::move(vertex));
  return {cs.data(), cs.data()->vertices.size() - 1};
}

VertexRef Graph::addVertex(const ComputeSet& cs, const std::string& vertexType,
                           std::initializer_list<ConnectionDesc> connections,
                           const DebugContext& debugContext) {
  return addVertex(cs, vertexType, std::vector<ConnectionDesc>(connections), debugContext);
}

VertexRef Graph::addVertex(const ComputeSet& cs, const std::string& vertexType,
                           const std::vector<ConnectionDesc>& connections, const DebugContext& debugContext) {
  const VertexRef vertex = addVertex(cs, vertexType, debugContext);
  for (const ConnectionDesc& c : connections) {
    if (!c.values.empty()) {
      connectNumbers(vertex[c.field], c.values);
    } else if (c.is_list) {
      connect(vertex[c.field], c.tensors);
    } else {
      connect(vertex[c.field], c.tensors.at(0));
    }
  }
  return vertex;
}

namespace {

struct FoundField {
  VertexState* vertex;
  const Field* field;
  FieldState* state;
  std::string name;  // for messages
};

VertexState& StateOf(const GraphImpl& graph, const char* function, const VertexRef& vertex) {
  if (vertex.set() == nullptr)
    throw poplar_error(std::string(function) + ": the vertex is empty (default-constructed)");
  CheckGraph(graph, *vertex.set(), function);
  if (vertex.index() >= vertex.set()->vertices.size()) {
    throw poplar_error(std::string(function) + ": the compute set '" + vertex.set()->name +
                       "' has no vertex " + std::to_string(vertex.index()));
  }
  return vertex.set()->vertices[vertex.index()];
}

FoundField FindField(const GraphImpl& graph, const char* function, const FieldRef& ref) {
  VertexState& vertex = StateOf(graph, function, ref.vertex());
  const std::string of = NameOfVertex(*ref.vertex().set(), ref.vertex().index());
  std::string known;
  for (std::size_t f = 0; f < vertex.type->num_fields; ++f) {
    const Field& field = vertex.type->fields[f];
    known += (known.empty() ? "" : ", ") + std::string(field.name);
    if (ref.name() != field.name) continue;
    return {&vertex, &field, &vertex.fields[f],
            std::string(function) + ": the field '" + ref.name() + "' of " + of};
  }
  throw unknown_field(std::string(function) + ": " + of + " has no field '" + ref.name() +
                      "'; it has: " + (known.empty() ? "none" : known));
}

void SetEdge(const FoundField& found, std::size_t index, const Tensor& tensor) {
  const auto type = static_cast<DType>(found.field->type);
  const bool is_quarter = found.field->is_quarter;
  if (tensor.elementType().id() != type || tensor.elementType().requiresMetadata() != is_quarter) {
    throw graph_connection_error(found.name + " has elements of type " +
                                 (is_quarter ? QUARTER : Type(type)).toString() + "; the tensor has " +
                                 tensor.elementType().toString() + tensor.shapeToString());
  }
  if (is_quarter && !tensor.hasMetadata())
    throw graph_connection_error(found.name + ": the tensor of QUARTER has no metadata");
  const bool scalar = found.field->kind == ipu_model::codelet::kScalarEdge ||
                      found.field->kind == ipu_model::codelet::kScalarEdges;
  if (scalar && tensor.numElements() != 1) {
    throw graph_connection_error(found.name + " takes one element, not " + tensor.elementType().toString() +
                                 tensor.shapeToString());
  }
  // Far more than a vertex can have; so that a wrong index takes no memory.
  if (index >= std::size_t{1} << 24)
    throw graph_connection_error(found.name + " has no edge " + std::to_string(index));
  std::vector<Tensor>& edges = found.state->edges;
  if (edges.size() <= index) edges.resize(index + 1);
  if (edges[index].valid()) throw graph_connection_error(found.name + " is connected already");
  edges[index] = tensor;
}

// Throws graph_connection_error for a tensor that is not of the graph, before anything is done with it.
void CheckTensor(const GraphImpl& graph, const FoundField& found, const Tensor& tensor) {
  if (!tensor.valid())
    throw graph_connection_error(found.name + ": the tensor is empty (default-constructed)");
  if (tensor.graph() != &graph) throw graph_connection_error(found.name + ": the tensor is of another graph");
}

bool HasSeveral(const FoundField& found) { return ipu_model::IsSeveral(*found.field); }

void CheckIsEdge(const FoundField& found) {
  if (!ipu_model::IsEdgeField(*found.field))
    throw graph_connection_error(found.name + " is no edge but a value: call setInitialValue");
}

}  // namespace

void Graph::connect(const FieldRef& field, const Tensor& tensor) {
  const FoundField found = FindField(*impl_, "connect", field);
  CheckIsEdge(found);
  CheckTensor(*impl_, found, tensor);
  if (field.isIndexed()) {
    if (!HasSeveral(found))
      throw graph_connection_error(found.name + " is one edge: it has no parts with an index");
    SetEdge(found, field.getIndex(), tensor);
  } else if (!HasSeveral(found)) {
    SetEdge(found, 0, tensor);
  } else if (found.field->kind == ipu_model::codelet::kScalarEdges) {
    const Tensor flat = tensor.flatten();
    for (std::size_t i = 0; i < flat.numElements(); ++i) SetEdge(found, i, flat[i]);
  } else {
    if (tensor.rank() < 2) {
      throw graph_connection_error(found.name +
                                   " has several edges of several elements: it takes a tensor of "
                                   "two dimensions or more, or a list of tensors");
    }
    for (std::size_t i = 0; i < tensor.dim(0); ++i) SetEdge(found, i, tensor[i]);
  }
}

void Graph::connect(const FieldRef& field, const std::vector<Tensor>& tensors) {
  const FoundField found = FindField(*impl_, "connect", field);
  CheckIsEdge(found);
  for (const Tensor& t : tensors) {
    CheckTensor(*impl_, found, t);
    if (t.elementType() != tensors[0].elementType()) {
      throw graph_connection_error(found.name + ": the tensors are of different types, " +
                                   tensors[0].elementType().toString() + " and " +
                                   t.elementType().toString());
    }
  }
  if (field.isIndexed() || !HasSeveral(found)) {
    // One edge takes the tensors together.
    std::vector<Tensor> flat;
    for (const Tensor& t : tensors) flat.push_back(t.flatten());
    if (flat.empty()) throw graph_connection_error(found.name + ": the list of tensors is empty");
    connect(field, flat.size() == 1 ? flat[0] : concat(flat));
    return;
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) SetEdge(found, i, tensors[i]);
}

void Graph::connectNumbers(const FieldRef& field, const std::vector<Number>& values) {
  const FoundField found = FindField(*impl_, "connect", field);
  CheckIsEdge(found);
  const Type type(static_cast<DType>(found.field->type));
  const Tensor constant = addConstantNumbers(type, {values.size()}, values, DebugContext(field.name()));
  for (const ipu_model::View& piece : constant.pieces())
    field.vertex().set()->constants.emplace_back(field.vertex().index(), piece.variable);
  connect(field, constant);
}

void Graph::setInitialNumbers(const FieldRef& field, const std::vector<Number>& values, bool list) {
  const FoundField found = FindField(*impl_, "setInitialValue", field);
  const auto kind = found.field->kind;
  if (field.isIndexed() || (kind != ipu_model::codelet::kValue && kind != ipu_model::codelet::kVectorValue))
    throw graph_connection_error(found.name + " is no value in the vertex: call connect");
  if (list != (kind == ipu_model::codelet::kVectorValue)) {
    throw graph_connection_error(found.name + (list ? " takes one value, not a list"
                                                    : " takes a list of values, one for each element"));
  }
  std::string bytes;
  for (const Number& n : values)
    bytes += ipu_model::BytesOfNumber(n, static_cast<DType>(found.field->type), found.name);
  found.state->value = std::move(bytes);
}

void Graph::setFieldSize(const FieldRef& field, std::size_t size) {
  const FoundField found = FindField(*impl_, "setFieldSize", field);
  if (size >= std::size_t{1} << 24)
    throw graph_connection_error(found.name + " cannot have " + std::to_string(size) + " elements");
  if (!field.isIndexed() && found.field->kind == ipu_model::codelet::kVectorValue) {
    found.state->value.resize(size * found.field->element_bytes, '\0');
  } else if (!field.isIndexed() && HasSeveral(found) && size >= found.state->edges.size()) {
    found.state->edges.resize(size);
  } else {
    throw graph_connection_error(found.name + " has no size that can be set to " + std::to_string(size));
  }
}

void Graph::setTileMapping(const VertexRef& vertex, unsigned tile) {
  VertexState& state = StateOf(*impl_, "setTileMapping", vertex);
  state.tile = physicalTile(tile, NameOfVertex(*vertex.set(), vertex.index()));
}

void Graph::setPerfEstimate(const VertexRef& vertex, std::uint64_t cycles, std::uint64_t flops) {
  StateOf(*impl_, "setPerfEstimate", vertex).estimate = VertexPerfEstimate(cycles, flops);
}

void Graph::registerPerfEstimator(const std::string& vertexType, PerfEstimateFunc estimator) {
  std::shared_ptr<const ipu_model::CodeletLibrary> library;
  const auto* type = impl_->FindCodelet(vertexType, &library);
  if (type == nullptr)
    throw unknown_vertex_type("registerPerfEstimator: there is no vertex class '" + vertexType + "'; " +
                              KnownClasses(*impl_, vertexType));
  if (estimator == nullptr)
    throw poplar_error("registerPerfEstimator: the estimator of '" + vertexType + "' is an empty function");
  impl_->perf_estimators[type->name] = std::move(estimator);
}

}  // namespace poplar
