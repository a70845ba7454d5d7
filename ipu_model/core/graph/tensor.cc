// poplar::Tensor: views as blocks of strided elements.
#include "poplar/Tensor.hpp"

#include <algorithm>
#include <utility>

#include "core/graph/tensor_data.h"
#include "core/graph/tensor_shape.h"
#include "core/mapping/blocks.h"
#include "core/mapping/pieces.h"
#include "core/mapping/strides.h"
#include "core/mapping/tiling.h"
#include "ipu_model/Model.hpp"
#include "poplar/exceptions.hpp"

namespace poplar {

using ipu_model::Blocks;
using ipu_model::Fail;
using ipu_model::FailIndex;
using ipu_model::SameShape;
using ipu_model::Shape;
using ipu_model::ShapeString;
using ipu_model::Tiling;
using ipu_model::ToShape;
using ipu_model::View;

namespace {

Tiling TilingOf(const View& view) {
  Tiling tiling{view.shape, Blocks(view.shape.size())};
  const ipu_model::Block block = tiling.blocks.Append(view.variable, view.offset);
  std::copy(view.shape.begin(), view.shape.end(), block.extents());
  std::copy(view.strides.begin(), view.strides.end(), block.strides());
  return tiling;
}

}  // namespace

struct Tensor::Data {
  Type type;
  std::vector<std::size_t> shape;
  Tiling tiling;
  std::shared_ptr<const ipu_model::GraphIdentity> graph;
  std::shared_ptr<const Data> metadata;  // of a QUARTER
};

const Tensor::Data& Tensor::data() const {
  if (!data_) Fail("Tensor: the tensor is empty (default-constructed)");
  return *data_;
}

const std::vector<std::size_t>& Tensor::shape() const { return data().shape; }
Type Tensor::elementType() const { return data().type; }
const Tiling& Tensor::tiling() const { return data().tiling; }
const Shape& Tensor::space() const { return data().tiling.space; }
const Blocks& Tensor::blocks() const { return data().tiling.blocks; }
std::uint32_t Tensor::graphNumber() const {
  return !valid() || data().graph == nullptr ? 0 : data().graph->number;
}
const void* Tensor::graph() const {
  return !valid() || data().graph == nullptr ? nullptr : data().graph->graph;
}

std::size_t Tensor::dim(unsigned i) const {
  CheckDim("dim", i);
  return this->shape()[i];
}

void Tensor::CheckValid(const char* method) const {
  if (!valid()) Fail(std::string("Tensor::") + method + ": the tensor is empty (default-constructed)");
}

void Tensor::CheckDim(const char* method, std::size_t dimension) const {
  CheckValid(method);
  if (dimension >= rank()) {
    FailIndex(std::string("Tensor::") + method + ": there is no dimension " + std::to_string(dimension) +
              " in a tensor of shape " + shapeToString());
  }
}

Tensor Tensor::with(Shape shape, Tiling tiling) const {
  auto made = std::make_shared<Data>();
  made->type = elementType();
  made->graph = data().graph;
  made->metadata = data().metadata;
  made->shape.assign(shape.begin(), shape.end());
  if (ipu_model::NumElements(shape) == 0) {
    // One block says which variable it is.
    Tiling none{std::move(shape), Blocks(made->shape.size())};
    const Blocks& known = tiling.blocks.empty() ? blocks() : tiling.blocks;
    if (!known.empty()) {
      const ipu_model::Block block = none.blocks.Append(known[0].variable(), 0);
      std::copy(none.space.begin(), none.space.end(), block.extents());
    }
    tiling = std::move(none);
  }
  made->tiling = std::move(tiling);
  made->tiling.blocks.FindOrder();
  return Tensor(std::move(made));
}

Tensor Tensor::withType(const Type& type, const Tensor& metadata) const {
  auto changed = std::make_shared<Data>(data());
  changed->type = type;
  changed->metadata = metadata.data_;
  return Tensor(std::move(changed));
}

Tensor Tensor::getMetadata() const { return valid() ? Tensor(data().metadata) : Tensor(); }
bool Tensor::hasMetadata() const { return valid() && data().metadata != nullptr; }

Tensor Tensor::fromView(const View& view, const void* graph) {
  auto like = std::make_shared<Data>();
  like->type = Type(view.type);
  if (graph != nullptr) like->graph = static_cast<const ipu_model::GraphImpl*>(graph)->identity();
  return Tensor(std::move(like)).with(view.shape, TilingOf(view));
}

Tensor Tensor::fromPieces(Type type, std::vector<std::size_t> shape, std::vector<View> pieces,
                          const void* graph) {
  std::int64_t total = 0;
  for (const View& v : pieces) total += v.num_elements();
  const Shape wanted = ToShape(shape);
  if (total != ipu_model::NumElements(wanted)) {
    Fail("Tensor::fromPieces: " + std::to_string(total) + " elements for the shape " + ShapeString(wanted));
  }
  if (pieces.size() == 1) return fromView(pieces[0], graph).reshape(shape);
  auto like = std::make_shared<Data>();
  like->type = type;
  if (graph != nullptr) like->graph = static_cast<const ipu_model::GraphImpl*>(graph)->identity();
  Tiling flat{{total}, Blocks(1)};
  std::int64_t first = 0;
  for (const View& v : pieces) {
    if (v.num_elements() == 0) continue;
    Tiling piece = TilingOf(v);
    CollapseGroups({v.num_elements()}, &piece);
    for (std::size_t i = 0; i < piece.blocks.size(); ++i) {
      flat.blocks.Append(std::as_const(piece.blocks)[i]).begin(0) += first;
      flat.blocks.JoinLast(0);
    }
    first += v.num_elements();
  }
  if (total == 0 && !pieces.empty()) flat = TilingOf(pieces[0]);
  if (total == 0) return Tensor(std::move(like)).with(wanted, std::move(flat));
  return Tensor(std::move(like)).with({total}, std::move(flat)).reshape(shape);
}

Tensor Tensor::aligned() const {
  if (SameShape(this->shape(), space())) return *this;
  Shape shape = ToShape(this->shape());
  Tiling tiling = this->tiling();
  Refine(shape, false, &tiling);
  CollapseGroups(shape, &tiling);
  return with(std::move(shape), std::move(tiling));
}

std::vector<View> Tensor::pieces() const {
  std::vector<View> out;
  const bool plain = SameShape(this->shape(), space());
  const auto add = [&](ipu_model::VariableId variable, std::int64_t offset, std::size_t rank,
                       const std::int64_t* extents, const std::int64_t* strides) {
    out.push_back({variable, elementType().id(), offset, Shape(extents, extents + rank),
                   Shape(strides, strides + rank), graphNumber()});
    if (!plain) out.back() = ipu_model::Coalesced(out.back());
  };
  ForEachPiece(blocks(), add);
  return out;
}

bool Tensor::asView(View* view) const {
  if (blocks().size() != 1 || !SameShape(this->shape(), space())) return false;
  *view = blocks()[0].view(elementType().id());
  view->graph = graphNumber();
  return true;
}

std::size_t Tensor::numElements() const {
  std::size_t n = 1;
  for (std::size_t d : this->shape()) n *= d;
  return n;
}

std::string Tensor::shapeToString() const { return ShapeString(ToShape(this->shape())); }

Tensor Tensor::reshape(const std::vector<std::size_t>& shape) const {
  CheckValid("reshape");
  const Shape wanted = ipu_model::CheckedShape("Tensor::reshape", shape);
  if (ipu_model::NumElements(wanted) != static_cast<std::int64_t>(numElements())) {
    Fail("Tensor::reshape: a tensor of shape " + shapeToString() + " does not have the elements of " +
         ShapeString(wanted));
  }
  if (shape == this->shape()) return *this;
  if (numElements() == 0) return with(wanted, {});
  View view;
  if (asView(&view) && ReshapeView(view, wanted, &view)) return with(wanted, TilingOf(view));
  Tiling tiling = this->tiling();
  if (ChangeOnes(wanted, &tiling)) return with(wanted, std::move(tiling));
  if (Refine(wanted, true, &tiling)) {
    MergeGroups(wanted, &tiling);
    return with(wanted, std::move(tiling));
  }
  auto reshaped = std::make_shared<Data>(data());
  reshaped->shape = shape;
  return Tensor(std::move(reshaped));
}

Tensor Tensor::reinterpret(const Type& type) const {
  CheckValid("reinterpret");
  if (ipu_model::SizeOf(type.id()) != ipu_model::SizeOf(elementType().id())) {
    throw type_error("Tensor::reinterpret: elements of " + elementType().toString() + " and " +
                     type.toString() + " differ in size");
  }
  auto reinterpreted = std::make_shared<Data>(data());
  reinterpreted->type = type;
  if (!type.requiresMetadata()) reinterpreted->metadata = nullptr;
  return Tensor(std::move(reinterpreted));
}

bool Tensor::containsAliases() const {
  std::vector<View> views;
  for (std::size_t i = 0; i < blocks().size(); ++i) views.push_back(blocks()[i].view(elementType().id()));
  return !ipu_model::AreDisjoint(views);
}

bool Tensor::isParallelWriteable() const { return !containsAliases() && !containsConstant(); }

bool Tensor::isContiguous() const {
  bool contiguous = true;
  std::int64_t next = -1;
  ipu_model::VariableId of = 0;
  const auto check = [&](ipu_model::VariableId variable, std::int64_t offset, std::size_t rank,
                         const std::int64_t* extents, const std::int64_t* strides) {
    contiguous = contiguous && (next < 0 || (of == variable && next == offset));
    std::int64_t elements = 1;
    for (std::size_t d = rank; d-- > 0 && contiguous; elements *= extents[d])
      contiguous = extents[d] == 1 || strides[d] == elements;
    of = variable;
    next = offset + elements;
  };
  if (numElements() > 0) ForEachPiece(blocks(), check);
  return contiguous;
}

}  // namespace poplar

namespace ipu_model {

bool IsStrided(const poplar::Tensor& tensor) {
  View view;
  return tensor.asView(&view);
}

bool IsRowMajor(const poplar::Tensor& tensor) {
  View view;
  return tensor.asView(&view) && IsRowMajorContiguous(view);
}

const GraphImpl& GraphOf(const poplar::Tensor& tensor, const char* method) {
  if (!tensor.valid())
    throw poplar::poplar_error(std::string(method) + ": the tensor is empty (default-constructed)");
  if (tensor.graph() == nullptr)
    throw poplar::poplar_error(std::string(method) + ": the graph of the tensor is gone");
  return *static_cast<const GraphImpl*>(tensor.graph());
}

}  // namespace ipu_model
