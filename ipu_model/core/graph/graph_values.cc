// Numbers in the graph: constants, initial values, and what fields of vertices can hold.
#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "core/graph/compute_set.h"
#include "core/graph/graph_impl.h"
#include "core/graph/runtime_vertices.h"
#include "core/graph/tensor_shape.h"
#include "core/target/target_model.h"
#include "poplar/Graph.hpp"
#include "poplar/exceptions.hpp"

namespace poplar {

using ipu_model::DType;
using ipu_model::Number;
using ipu_model::codelet::Field;

namespace {

DType TypeOf(const TypeTraits& traits) {
  if (traits.isFloat) return traits.size == 4 ? DType::kF32 : DType::kF64;
  constexpr DType kSigned[] = {DType::kS8, DType::kS16, DType::kS32, DType::kS64};
  constexpr DType kUnsigned[] = {DType::kU8, DType::kU16, DType::kU32, DType::kU64};
  const int width = traits.size == 1 ? 0 : traits.size == 2 ? 1 : traits.size == 4 ? 2 : 3;
  return traits.isSigned ? kSigned[width] : kUnsigned[width];
}

const Field& FindField(const ipu_model::GraphImpl& graph, const char* function,
                       const std::string& vertex_type, const std::string& name) {
  std::shared_ptr<const ipu_model::CodeletLibrary> library;
  const auto* type = graph.FindCodelet(vertex_type, &library);
  if (type == nullptr)
    throw unknown_vertex_type(std::string(function) + ": there is no vertex class '" + vertex_type + "'");
  for (std::size_t f = 0; f < type->num_fields; ++f) {
    if (name == type->fields[f].name) return type->fields[f];
  }
  throw unknown_field(std::string(function) + ": the vertex class '" + vertex_type + "' has no field '" +
                      name + "'");
}

// The most elements that the size in a reference to a vector can count.
std::size_t MaxSize(VectorLayout layout, const ipu_model::TargetModel& target) {
  switch (layout) {
    case VectorLayout::SPAN:
      return std::numeric_limits<std::uint32_t>::max();
    case VectorLayout::SHORT_SPAN:
      return (std::size_t{1} << target.short_span_size_bits) - 1;
    default:
      return std::numeric_limits<std::uint32_t>::max();  // there is no size: as many as an address can reach
  }
}

std::size_t ElementsOf(const std::vector<std::size_t>& shape) {
  return static_cast<std::size_t>(ipu_model::NumElements(ipu_model::CheckedShape("addConstant", shape)));
}

// Each element of the result is an alias of the one of the scalar.
Tensor Broadcast(const Tensor& scalar, const std::vector<std::size_t>& shape) {
  Tensor result = scalar.reshape(std::vector<std::size_t>(shape.size(), 1));
  for (unsigned d = 0; d < shape.size(); ++d) result = result.broadcast(static_cast<unsigned>(shape[d]), d);
  return result;
}

}  // namespace

Tensor Graph::addConstant(const Type& type, const std::vector<std::size_t>& shape, const void* values,
                          const TypeTraits& traits, bool broadcast, const DebugContext& debugContext) {
  if (TypeOf(traits) == type.id() && !broadcast) return addConstant(type, shape, values, debugContext);
  const std::size_t elements = ElementsOf(shape);
  if (values == nullptr && (broadcast || elements > 0))
    throw poplar_error("addConstant: '" + debugContext.getPathName() + "': the values are a null pointer");
  std::vector<Number> numbers;
  for (std::size_t i = 0; i < (broadcast ? 1 : elements); ++i) {
    numbers.push_back(
        ipu_model::NumberOfBytes(static_cast<const char*>(values) + i * traits.size, TypeOf(traits)));
  }
  return addConstantNumbers(type, shape, numbers, debugContext);
}

Tensor Graph::addConstantNumbers(const Type& type, const std::vector<std::size_t>& shape,
                                 const std::vector<Number>& values, const DebugContext& debugContext) {
  const std::size_t elements = ElementsOf(shape);
  if (values.size() != elements && values.size() != 1) {
    throw poplar_error("addConstant: '" + debugContext.getPathName() + "' of " + std::to_string(elements) +
                       " elements is given " + std::to_string(values.size()) + " values");
  }
  std::string bytes;
  for (const Number& n : values) bytes += ipu_model::BytesOfNumber(n, type.id(), "addConstant");
  const bool is_broadcast = values.size() < elements;
  const Tensor made = addConstant(type, is_broadcast ? std::vector<std::size_t>() : shape,
                                  static_cast<const void*>(bytes.data()), debugContext);
  return is_broadcast ? Broadcast(made, shape) : made;
}

Tensor Graph::addConstantHalf(const Type& type, const std::vector<std::size_t>& shape, std::uint16_t value,
                              const DebugContext& debugContext) {
  (void)ElementsOf(shape);
  return Broadcast(addConstantHalf(type, {}, &value, debugContext), shape);
}

Tensor Graph::addQuarterConstant(const Type& type, const Tensor& metadata,
                                 const std::vector<std::size_t>& shape, const std::vector<Number>& values,
                                 const DebugContext& debugContext) {
  if (!type.requiresMetadata()) return addConstantNumbers(type, shape, values, debugContext);
  ipu_model::CheckGraph(*impl_, metadata, "addConstant");
  std::uint8_t binary = 0;
  const bool known = metadata.getConstantValue(&binary);
  const bool zeros = std::all_of(values.begin(), values.end(), [](const Number& n) { return n.real == 0; });
  if (metadata.elementType() != QUARTER_METADATA || (!known && !zeros)) {
    throw tensor_metadata_error(
        "addConstant: '" + debugContext.getPathName() +
        "': elements of QUARTER need metadata, which must be a constant unless all are 0");
  }
  const QuarterMetadata format = QuarterMetadata::fromBinary(known ? binary : 0);
  std::vector<Number> bytes;
  for (const Number& n : values) {
    std::uint8_t byte = 0;
    ipu_model::NumbersToDevice(QUARTER, &format, &n.real, 1, &byte);
    bytes.push_back(ipu_model::NumberOf(byte));
  }
  return addConstantNumbers(UNSIGNED_CHAR, shape, bytes, debugContext).withType(QUARTER, metadata);
}

void Graph::setInitialTensor(const Tensor& tensor, const std::vector<Number>& values) {
  ipu_model::CheckGraph(*impl_, tensor, "setInitialValue");
  if (!tensor.isParallelWriteable()) {
    throw poplar_error("setInitialValue: " + tensor.getDebugStr() +
                       " has constants or elements that are the same in memory");
  }
  if (values.size() != 1 && values.size() != tensor.numElements()) {
    throw poplar_error("setInitialValue: " + std::to_string(values.size()) + " values for " +
                       tensor.getDebugStr());
  }
  if (tensor.numElements() == 0) return;
  std::string bytes;
  for (std::size_t i = 0; i < tensor.numElements(); ++i) {
    bytes += ipu_model::BytesOfNumber(values[values.size() == 1 ? 0 : i], tensor.elementType().id(),
                                      "setInitialValue");
  }
  createHostWrite("initial value " + std::to_string(impl_->host_handles.size()), tensor);
  impl_->host_handles.back().initial = std::move(bytes);
}

void Graph::setInitialValueHalf(const FieldRef& field, std::uint16_t bits) {
  Number number;
  number.is_real = true;
  ipu_model::NumbersFromDevice(HALF, nullptr, &bits, 1, &number.real);
  setInitialNumbers(field, {number}, false);
}

namespace {
std::vector<Number> NumbersOfHalf(ArrayRef<std::uint16_t> bits) {
  std::vector<double> values(bits.size());
  ipu_model::NumbersFromDevice(HALF, nullptr, bits.data(), bits.size(), values.data());
  return ipu_model::NumbersOf(values);
}
}  // namespace

void Graph::setInitialValueHalf(const FieldRef& field, ArrayRef<std::uint16_t> bits) {
  setInitialNumbers(field, NumbersOfHalf(bits), true);
}

void Graph::setInitialValueHalf(const Tensor& tensor, ArrayRef<std::uint16_t> values) {
  if (tensor.elementType() != HALF)
    throw type_error("setInitialValueHalf: " + tensor.getDebugStr() + " is not of HALF");
  setInitialTensor(tensor, NumbersOfHalf(values));
}

std::uint64_t Graph::getMaxVertexFieldValue(const std::string& vertexType, const std::string& field) const {
  ipu_model::AddRuntimeVertices(impl_.get(), vertexType);
  const Field& found = FindField(*impl_, "getMaxVertexFieldValue", vertexType, field);
  switch (static_cast<DType>(found.type)) {
    case DType::kPred:
      return 1;
    case DType::kS8:
      return std::numeric_limits<std::int8_t>::max();
    case DType::kU8:
      return std::numeric_limits<std::uint8_t>::max();
    case DType::kS16:
      return std::numeric_limits<std::int16_t>::max();
    case DType::kU16:
      return std::numeric_limits<std::uint16_t>::max();
    case DType::kS32:
      return std::numeric_limits<std::int32_t>::max();
    case DType::kU32:
      return std::numeric_limits<std::uint32_t>::max();
    case DType::kS64:
      return std::numeric_limits<std::int64_t>::max();
    case DType::kU64:
      return std::numeric_limits<std::uint64_t>::max();
    default:
      throw type_error("getMaxVertexFieldValue: the field '" + field + "' of '" + vertexType +
                       "' has no integers");
  }
}

std::size_t Graph::getMaxFieldDim(const std::string& vertexType, const std::string& field,
                                  unsigned dimension) const {
  const Field& found = FindField(*impl_, "getMaxFieldDim", vertexType, field);
  const ipu_model::TargetModel& target = impl_->target.model();
  const auto kind = found.kind;
  const unsigned dimensions = kind == ipu_model::codelet::kVectorEdges ? 2
                              : kind == ipu_model::codelet::kVectorEdge ||
                                      kind == ipu_model::codelet::kVectorValue ||
                                      kind == ipu_model::codelet::kScalarEdges
                                  ? 1
                                  : 0;
  if (dimension >= dimensions) {
    throw type_error("getMaxFieldDim: the field '" + field + "' of '" + vertexType + "' has " +
                     std::to_string(dimensions) + " dimensions");
  }
  if (kind == ipu_model::codelet::kVectorEdge)
    return MaxSize(static_cast<VectorLayout>(found.layout), target);
  if (kind != ipu_model::codelet::kVectorEdges) return std::numeric_limits<std::uint32_t>::max();
  if (dimension == 0) return (std::size_t{1} << target.delta_list_count_bits) - 1;
  // A VectorList, whose entry has the bytes of an address, keeps the sizes in the list.
  return found.is_list ? (std::size_t{1} << target.delta_size_bits) - 1
                       : MaxSize(static_cast<VectorLayout>(found.layout), target);
}

}  // namespace poplar
