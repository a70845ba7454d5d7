// poplar::Graph::serializeTensors and deserializeTensors: the shape, type, layout and tile mapping of
// tensors, without their values.
#include <istream>
#include <map>
#include <ostream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "core/graph/graph_impl.h"
#include "core/mapping/strides.h"
#include "core/operation/serialise.h"
#include "ipu_model/Stored.hpp"
#include "poplar/Graph.hpp"
#include "poplar/exceptions.hpp"

namespace poplar {
namespace {

using ipu_model::DType;
using ipu_model::Reader;
using ipu_model::Shape;
using ipu_model::VariableId;
using ipu_model::View;

constexpr std::string_view kMagic = "IPUTENSR";
constexpr std::int64_t kMostElements = std::int64_t{1} << 40;

// The types that have a name of their own beside the representation.
constexpr Type kVariants[] = {CHAR, LONG, UNSIGNED_LONG, QUARTER, QUARTER_METADATA};

void CheckFormat(SerializationFormat format) {
  if (format != SerializationFormat::Binary)
    throw poplar_error("serializeTensors and deserializeTensors: the model only has the binary format");
}

std::int64_t CheckedElements(const Reader& reader, const std::vector<std::int64_t>& shape) {
  std::int64_t n = 1;
  for (const std::int64_t d : shape) {
    if (d < 0 || (d > 0 && n > kMostElements / d)) reader.Fail("a shape is invalid");
    n *= d;
  }
  return n;
}

void CheckView(const Reader& reader, const View& view, std::int64_t variable_elements) {
  if (view.shape.size() != view.strides.size()) reader.Fail("a view has strides for another shape");
  const std::int64_t n = CheckedElements(reader, {view.shape.begin(), view.shape.end()});
  double min = static_cast<double>(view.offset), max = min;
  for (std::size_t d = 0; d < view.shape.size(); ++d) {
    const double span = static_cast<double>(view.shape[d] - 1) * static_cast<double>(view.strides[d]);
    (span < 0 ? min : max) += span;
  }
  if (n > 0 && (min < 0 || max >= static_cast<double>(variable_elements)))
    reader.Fail("a view extends beyond its variable");
}

Type TypeOf(const Reader& reader, DType id, const std::string& name) {
  if (name.empty()) return Type(id);
  for (const Type& type : kVariants) {
    if (type.id() == id && type.toString() == name) return type;
  }
  reader.Fail("there is no type '" + name + "'");
}

}  // namespace

void Graph::serializeTensors(std::ostream& out, ArrayRef<Tensor> tensors, SerializationFormat format) const {
  CheckFormat(format);
  std::vector<Tensor> all;  // each tensor, and its metadata behind it
  for (const Tensor& t : tensors) {
    if (!t.valid()) throw poplar_error("serializeTensors: a tensor is empty (default-constructed)");
    all.push_back(t);
    if (t.hasMetadata()) all.push_back(t.getMetadata());
  }
  std::map<VariableId, std::size_t> numbers;
  std::vector<VariableId> variables;
  for (const Tensor& t : all) {
    for (const View& piece : t.pieces()) {
      if (numbers.emplace(piece.variable, variables.size()).second) variables.push_back(piece.variable);
    }
  }
  ipu_model::Writer writer;
  writer.Write(variables.size());
  for (const VariableId id : variables) {
    const ipu_model::Variable& variable = impl_->variables.at(id);
    writer.Write(variable.name);
    writer.Write(variable.type);
    writer.Write(std::vector<std::int64_t>(variable.shape.begin(), variable.shape.end()));
    writer.Write(variable.mapping, variable.num_elements);
  }
  writer.Write(all.size());
  for (const Tensor& t : all) {
    writer.Write(t.elementType().id());
    writer.Write(t.elementType().isVariant() ? t.elementType().toString() : "");
    writer.Write(t.hasMetadata());
    writer.Write(std::vector<std::int64_t>(t.shape().begin(), t.shape().end()));
    std::vector<View> pieces = t.pieces();
    for (View& piece : pieces) piece.variable = static_cast<VariableId>(numbers.at(piece.variable));
    writer.Write(pieces);
  }
  out << ipu_model::Seal(kMagic, writer.data());
}

std::vector<Tensor> Graph::deserializeTensors(std::istream& in, SerializationFormat format) {
  CheckFormat(format);
  std::ostringstream data;
  data << in.rdbuf();
  const std::string text = data.str();
  try {
    Reader reader(ipu_model::Unseal(kMagic, text));
    // Everything is checked before the graph gets its first variable.
    std::vector<ipu_model::Variable> variables;
    for (std::size_t n = reader.ReadLength(); n > 0; --n) {
      ipu_model::Variable& variable = variables.emplace_back();
      variable.name = reader.Read<std::string>();
      variable.type = reader.Read<DType>();
      const auto shape = reader.Read<std::vector<std::int64_t>>();
      variable.num_elements = CheckedElements(reader, shape);
      variable.shape = Shape(shape.begin(), shape.end());
      variable.mapping = reader.ReadMapping(variable.num_elements);
      variable.mapping.ForEachInterval(0, variable.num_elements,
                                       [&](std::int64_t, std::int64_t, unsigned tile) {
                                         if (tile >= impl_->target.getNumTiles())
                                           reader.Fail("the target has no tile " + std::to_string(tile));
                                       });
    }
    struct Read {
      Type type;
      bool has_metadata;
      std::vector<std::size_t> shape;
      std::vector<View> pieces;
    };
    std::vector<Read> read;
    for (std::size_t n = reader.ReadLength(); n > 0; --n) {
      const auto id = reader.Read<DType>();
      Read& tensor = read.emplace_back();
      tensor.type = TypeOf(reader, id, reader.Read<std::string>());
      tensor.has_metadata = reader.Read<bool>();
      const auto shape = reader.Read<std::vector<std::int64_t>>();
      std::int64_t elements = CheckedElements(reader, shape);
      tensor.shape.assign(shape.begin(), shape.end());
      tensor.pieces = reader.Read<std::vector<View>>();
      for (const View& piece : tensor.pieces) {
        if (piece.variable >= variables.size() ||
            SizeOf(piece.type) != SizeOf(variables[piece.variable].type))
          reader.Fail("a view does not fit its variable");
        CheckView(reader, piece, variables[piece.variable].num_elements);
        elements -= piece.num_elements();
      }
      if (elements != 0) reader.Fail("views do not have the elements of their tensor");
    }
    for (std::size_t i = 0; i < read.size(); ++i) {
      if (read[i].type.requiresMetadata() != read[i].has_metadata ||
          (read[i].has_metadata && (i + 1 == read.size() || read[i + 1].type != QUARTER_METADATA)))
        reader.Fail("a tensor of QUARTER has no metadata");
    }
    std::vector<VariableId> ids;
    for (ipu_model::Variable& v : variables)
      ids.push_back(impl_->AddVariable(v.type, v.shape, v.name, std::move(v.mapping)));
    const auto make = [&](Read& tensor) {
      for (View& piece : tensor.pieces) piece.variable = ids[piece.variable];
      return Tensor::fromPieces(Type(tensor.type.id()), tensor.shape, std::move(tensor.pieces), impl_.get());
    };
    std::vector<Tensor> result;
    for (std::size_t i = 0; i < read.size(); ++i) {
      const Read& tensor = read[i];
      const Tensor made = make(read[i]);
      if (tensor.has_metadata) {
        result.push_back(made.withType(tensor.type, make(read[i + 1]).withType(QUARTER_METADATA, Tensor())));
        ++i;
      } else {
        result.push_back(tensor.type.isVariant() ? made.withType(tensor.type, Tensor()) : made);
      }
    }
    return result;
  } catch (const poplar_error&) {
    throw;
  } catch (const std::runtime_error& error) {
    throw poplar_error(
        std::string("deserializeTensors: the data is not what serializeTensors of this release writes: ") +
        error.what());
  }
}

}  // namespace poplar
