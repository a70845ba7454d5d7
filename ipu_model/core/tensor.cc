// poplar::Tensor: views as blocks of strided elements.
#include "poplar/Tensor.hpp"

#include <algorithm>
#include <utility>

#include "core/strides.h"
#include "core/tensor_data.h"
#include "ipu_model/Model.hpp"
#include "poplar/exceptions.hpp"

namespace poplar {

using ipu_model::Box;
using ipu_model::BoxesOfInterval;
using ipu_model::Coalesced;
using ipu_model::Restrict;
using ipu_model::RowMajorStrides;
using ipu_model::Shape;
using ipu_model::ShapeString;
using ipu_model::View;
using Block = Tensor::Block;

namespace {

[[noreturn]] void Fail(const std::string& message) { throw poplar_error(message); }

Shape ToShape(const std::vector<std::size_t>& shape) { return Shape(shape.begin(), shape.end()); }

// Writes the intersection of a block with the range [begin, end) of dimension d, in the same coordinates.
bool Clip(const Block& block, std::size_t d, std::int64_t begin, std::int64_t end, Block* out) {
  const std::int64_t b = std::max(begin, block.begin[d]);
  const std::int64_t e = std::min(end, block.begin[d] + block.view.shape[d]);
  if (b >= e) return false;
  *out = block;
  out->view.offset += (b - block.begin[d]) * block.view.strides[d];
  out->view.shape[d] = e - b;
  out->begin[d] = b;
  return true;
}

// Appends the views of `blocks`, which tile the dimensions from d on (the earlier ones are fixed), in
// row-major order.
void AppendPieces(const std::vector<Block>& blocks, std::size_t d, std::vector<View>* out) {
  if (blocks.size() == 1) {
    View view = blocks[0].view;
    view.shape.erase(view.shape.begin(), view.shape.begin() + static_cast<std::ptrdiff_t>(d));
    view.strides.erase(view.strides.begin(), view.strides.begin() + static_cast<std::ptrdiff_t>(d));
    out->push_back(std::move(view));
    return;
  }
  const auto end_of = [d](const Block* b) { return b->begin[d] + b->view.shape[d]; };
  std::vector<std::int64_t> cuts;
  std::vector<const Block*> by_begin;
  for (const Block& b : blocks) {
    cuts.push_back(b.begin[d]);
    cuts.push_back(end_of(&b));
    by_begin.push_back(&b);
  }
  std::sort(by_begin.begin(), by_begin.end(),
            [d](const Block* a, const Block* b) { return a->begin[d] < b->begin[d]; });
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  // Those that reach into the slab between two cuts: looking at all blocks for each would take the square of
  // their number.
  std::vector<const Block*> active;
  auto next = by_begin.begin();
  for (std::size_t c = 0; c + 1 < cuts.size(); ++c) {
    active.erase(
        std::remove_if(active.begin(), active.end(), [&](const Block* b) { return end_of(b) <= cuts[c]; }),
        active.end());
    for (; next != by_begin.end() && (*next)->begin[d] <= cuts[c]; ++next) active.push_back(*next);
    std::vector<Block> slab;
    Block clipped;
    for (const Block* b : active) {
      if (Clip(*b, d, cuts[c], cuts[c + 1], &clipped)) slab.push_back(clipped);
    }
    if (slab.size() == 1) {
      AppendPieces(slab, d, out);
      continue;
    }
    // Rows of several blocks alternate.
    for (std::int64_t i = cuts[c]; i < cuts[c + 1]; ++i) {
      std::vector<Block> row;
      for (const Block& b : slab) {
        if (Clip(b, d, i, i + 1, &clipped)) row.push_back(clipped);
      }
      AppendPieces(row, d + 1, out);
    }
  }
}

// Reshapes one block of a tensor of shape `from` to its position in shape `to`. Returns false if it is not
// one strided block there. Dimensions are matched in groups with equal element counts.
bool ReshapeBlock(const Block& block, const Shape& from, const Shape& to, Block* out) {
  out->view = block.view;
  out->view.shape.clear();
  out->view.strides.clear();
  out->begin.clear();
  std::size_t i = 0, j = 0;
  while (i < from.size() || j < to.size()) {
    const std::size_t i0 = i, j0 = j;
    std::int64_t n = 1, m = 1;
    if (i < from.size()) n = from[i++];
    if (j < to.size()) m = to[j++];
    while (n != m) {
      if (n < m) {
        if (i == from.size()) return false;
        n *= from[i++];
      } else {
        if (j == to.size()) return false;
        m *= to[j++];
      }
    }
    // The block's part of this group must be one interval of the group's row-major order, ...
    const Shape group(from.begin() + static_cast<std::ptrdiff_t>(i0),
                      from.begin() + static_cast<std::ptrdiff_t>(i));
    const Shape target(to.begin() + static_cast<std::ptrdiff_t>(j0),
                       to.begin() + static_cast<std::ptrdiff_t>(j));
    const Shape strides = RowMajorStrides(group);
    std::int64_t begin = 0, elements = 1;
    bool inside = false;  // a dimension with more than one element was visited
    View part;
    for (std::size_t d = i0; d < i; ++d) {
      begin += block.begin[d] * strides[d - i0];
      elements *= block.view.shape[d];
      if (inside && block.view.shape[d] != from[d]) return false;
      inside = inside || block.view.shape[d] > 1;
      part.shape.push_back(block.view.shape[d]);
      part.strides.push_back(block.view.strides[d]);
    }
    // ... and one strided box of the new dimensions.
    const std::vector<Box> boxes = BoxesOfInterval(target, begin, begin + elements);
    if (boxes.size() != 1) return false;
    View reshaped;
    if (!ReshapeView(part, boxes[0].extents(), &reshaped)) return false;
    out->begin.insert(out->begin.end(), boxes[0].begin.begin(), boxes[0].begin.end());
    out->view.shape.insert(out->view.shape.end(), reshaped.shape.begin(), reshaped.shape.end());
    out->view.strides.insert(out->view.strides.end(), reshaped.strides.begin(), reshaped.strides.end());
  }
  return true;
}

// Appends blocks over `shape` for the elements of `view`; its first element is element `first` of the shape.
std::int64_t AppendFlat(const View& view, const Shape& shape, std::int64_t first, std::vector<Block>* out) {
  const View merged = Coalesced(view);
  const std::int64_t run = merged.shape.back(), stride = merged.strides.back();
  Shape outer(merged.shape.begin(), merged.shape.end() - 1);
  const Shape weights = RowMajorStrides(shape);
  const std::int64_t num_runs = run == 0 ? 0 : view.num_elements() / run;
  for (std::int64_t r = 0; r < num_runs; ++r) {
    std::int64_t offset = merged.offset, rest = r;
    for (std::size_t d = outer.size(); d-- > 0;) {
      offset += rest % outer[d] * merged.strides[d];
      rest /= outer[d];
    }
    std::int64_t done = 0;
    for (const Box& box : BoxesOfInterval(shape, first, first + run)) {
      Block block{box.begin, view};
      block.view.offset = offset + done * stride;
      block.view.shape = box.extents();
      block.view.strides = weights;
      for (std::int64_t& s : block.view.strides) s *= stride;
      done += block.view.num_elements();
      out->push_back(std::move(block));
    }
    first += run;
  }
  return first;
}

// Appends `next` to `block` along dimension d if together they are one strided view; otherwise returns false.
bool Join(Block* block, const Block& next, std::size_t d) {
  View& a = block->view;
  const View& b = next.view;
  if (a.variable != b.variable || block->begin[d] + a.shape[d] != next.begin[d]) return false;
  for (std::size_t k = 0; k < a.shape.size(); ++k) {
    if (k == d) continue;
    if (block->begin[k] != next.begin[k] || a.shape[k] != b.shape[k]) return false;
    if (a.shape[k] > 1 && a.strides[k] != b.strides[k]) return false;
  }
  // A dimension of one element may have any stride.
  std::int64_t step = a.strides[d];
  if (a.shape[d] == 1 && b.shape[d] == 1) step = b.offset - a.offset;
  if (a.shape[d] == 1 && b.shape[d] > 1) step = b.strides[d];
  if (b.shape[d] > 1 && b.strides[d] != step) return false;
  if (b.offset != a.offset + step * a.shape[d]) return false;
  a.strides[d] = step;
  a.shape[d] += b.shape[d];
  return true;
}

}  // namespace

struct Tensor::Data {
  Type type;
  std::vector<std::size_t> shape;
  Shape layout;
  std::vector<Block> blocks;
  const void* graph = nullptr;
  std::shared_ptr<const Data> metadata;  // of a QUARTER
};

const Tensor::Data& Tensor::data() const {
  static const Data kNone;
  return data_ ? *data_ : kNone;
}

const std::vector<std::size_t>& Tensor::shape() const { return data().shape; }
Type Tensor::elementType() const { return data().type; }
const Shape& Tensor::layout() const { return data().layout; }
const std::vector<Block>& Tensor::blocks() const { return data().blocks; }
const void* Tensor::graph() const { return data().graph; }

void Tensor::CheckDim(const char* method, unsigned dimension) const {
  if (!valid()) Fail(std::string("Tensor::") + method + ": the tensor is empty (default-constructed)");
  if (dimension >= rank()) {
    Fail(std::string("Tensor::") + method + ": there is no dimension " + std::to_string(dimension) +
         " in a tensor of shape " + shapeToString());
  }
}

Tensor Tensor::make(Type type, const void* graph, Shape shape, std::vector<Block> blocks) {
  auto made = std::make_shared<Data>();
  made->type = type;
  made->graph = graph;
  made->shape.assign(shape.begin(), shape.end());
  made->layout = std::move(shape);
  if (ipu_model::NumElements(made->layout) == 0) {
    // One block says which variable it is.
    if (blocks.size() > 1) blocks.resize(1);
    for (Block& b : blocks) {
      b.begin.assign(made->layout.size(), 0);
      b.view.shape = made->layout;
      b.view.strides.assign(made->layout.size(), 0);
      b.view.offset = 0;
    }
  }
  made->blocks = std::move(blocks);
  return Tensor(std::move(made));
}

Tensor Tensor::withBlocks(Shape shape, std::vector<Block> blocks) const {
  Tensor made = make(elementType(), graph(), std::move(shape), std::move(blocks));
  return data().metadata == nullptr ? made : made.withType(elementType(), getMetadata());
}

Tensor Tensor::withType(const Type& type, const Tensor& metadata) const {
  auto changed = std::make_shared<Data>(data());
  changed->type = type;
  changed->metadata = metadata.data_;
  return Tensor(std::move(changed));
}

Tensor Tensor::getMetadata() const { return Tensor(data().metadata); }
bool Tensor::hasMetadata() const { return data().metadata != nullptr; }

Tensor Tensor::fromView(const View& view, const void* graph) {
  return make(Type(view.type), graph, view.shape, {{Shape(view.shape.size(), 0), view}});
}

Tensor Tensor::fromPieces(Type type, std::vector<std::size_t> shape, std::vector<View> pieces,
                          const void* graph) {
  std::int64_t first = 0, total = 0;
  for (const View& v : pieces) total += v.num_elements();
  const Shape wanted = ToShape(shape);
  if (total != ipu_model::NumElements(wanted)) {
    Fail("Tensor::fromPieces: " + std::to_string(total) + " elements for the shape " + ShapeString(wanted));
  }
  if (pieces.size() == 1) return fromView(pieces[0], graph).reshape(shape);
  std::vector<Block> blocks;
  for (const View& v : pieces) first = AppendFlat(v, wanted, first, &blocks);
  if (blocks.empty() && !pieces.empty()) blocks.push_back({Shape(wanted.size(), 0), pieces[0]});
  return make(type, graph, wanted, std::move(blocks));
}

Tensor Tensor::aligned() const {
  Shape shape = ToShape(this->shape());
  if (layout() == shape) return *this;
  std::vector<Block> aligned;
  std::int64_t first = 0;
  for (const View& v : pieces()) first = AppendFlat(v, shape, first, &aligned);
  return withBlocks(std::move(shape), std::move(aligned));
}

std::vector<View> Tensor::pieces() const {
  std::vector<View> out;
  if (!blocks().empty()) AppendPieces(blocks(), 0, &out);
  return out;
}

bool Tensor::asView(View* view) const {
  if (blocks().size() != 1 || layout() != ToShape(this->shape())) return false;
  *view = blocks()[0].view;
  return true;
}

std::size_t Tensor::numElements() const {
  std::size_t n = 1;
  for (std::size_t d : this->shape()) n *= d;
  return n;
}

std::string Tensor::shapeToString() const { return ShapeString(ToShape(this->shape())); }

Tensor Tensor::slice(std::size_t begin, std::size_t end, unsigned dimension) const {
  CheckDim("slice", dimension);
  if (begin > end || end > this->shape()[dimension]) {
    Fail("Tensor::slice: [" + std::to_string(begin) + ", " + std::to_string(end) + ") of dimension " +
         std::to_string(dimension) + " is not inside a tensor of shape " + shapeToString());
  }
  if (begin == 0 && end == this->shape()[dimension]) return *this;
  const Tensor t = aligned();
  Shape shape = t.layout();
  shape[dimension] = static_cast<std::int64_t>(end - begin);
  std::vector<Block> blocks;
  Block clipped;
  for (const Block& b : t.blocks()) {
    if (!Clip(b, dimension, static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end), &clipped))
      continue;
    clipped.begin[dimension] -= static_cast<std::int64_t>(begin);
    blocks.push_back(clipped);
  }
  if (blocks.empty()) blocks.assign(t.blocks().begin(), t.blocks().begin() + (t.blocks().empty() ? 0 : 1));
  return t.withBlocks(std::move(shape), std::move(blocks));
}

Tensor Tensor::slice(const Interval& region, unsigned dimension) const {
  return slice(region.begin(), region.end(), dimension);
}

Tensor Tensor::slice(ArrayRef<std::size_t> begin, ArrayRef<std::size_t> end) const {
  if (begin.size() != end.size() || begin.size() > this->shape().size()) {
    Fail("Tensor::slice: " + std::to_string(begin.size()) + " begins and " + std::to_string(end.size()) +
         " ends for a tensor of shape " + shapeToString());
  }
  Tensor t = *this;
  for (unsigned d = 0; d < begin.size(); ++d) t = t.slice(begin[d], end[d], d);
  return t;
}

Tensor Tensor::operator[](std::size_t i) const { return slice(i, i + 1, 0).squeeze({0}); }

Tensor Tensor::index(const std::vector<std::size_t>& indices) const {
  if (indices.size() > this->shape().size()) {
    Fail("Tensor::index: " + std::to_string(indices.size()) + " indices for a tensor of shape " +
         shapeToString());
  }
  Tensor t = *this;
  for (std::size_t i : indices) t = t[i];
  return t;
}

Tensor Tensor::reshape(const std::vector<std::size_t>& shape) const {
  if (!valid()) Fail("Tensor::reshape: the tensor is empty (default-constructed)");
  const Shape wanted = ToShape(shape);
  if (ipu_model::NumElements(wanted) != static_cast<std::int64_t>(numElements())) {
    Fail("Tensor::reshape: a tensor of shape " + shapeToString() + " does not have the elements of " +
         ShapeString(wanted));
  }
  if (shape == this->shape()) return *this;
  const std::vector<Block>& before = blocks();
  if (numElements() == 0) return withBlocks(wanted, before);
  std::vector<Block> after(before.size());
  bool strided = true;
  if (before.size() == 1) {
    after[0].begin.assign(wanted.size(), 0);
    strided = ReshapeView(before[0].view, wanted, &after[0].view);
  } else {
    for (std::size_t i = 0; i < before.size() && strided; ++i) {
      strided = ReshapeBlock(before[i], layout(), wanted, &after[i]);
    }
  }
  if (strided) return withBlocks(wanted, std::move(after));
  auto reshaped = std::make_shared<Data>(data());
  reshaped->shape = shape;
  return Tensor(std::move(reshaped));
}

Tensor Tensor::reshapePartial(unsigned beginIndex, unsigned endIndex,
                              const std::vector<std::size_t>& newDims) const {
  if (beginIndex > endIndex || endIndex > rank()) {
    Fail("Tensor::reshapePartial: dimensions [" + std::to_string(beginIndex) + ", " +
         std::to_string(endIndex) + ") are not in a tensor of shape " + shapeToString());
  }
  std::vector<std::size_t> shape(this->shape().begin(), this->shape().begin() + beginIndex);
  shape.insert(shape.end(), newDims.begin(), newDims.end());
  shape.insert(shape.end(), this->shape().begin() + endIndex, this->shape().end());
  return reshape(shape);
}

Tensor Tensor::dimShuffle(const std::vector<unsigned>& permutation) const {
  std::vector<unsigned> sorted = permutation;
  std::sort(sorted.begin(), sorted.end());
  bool ok = valid() && sorted.size() == this->shape().size();
  for (unsigned d = 0; ok && d < sorted.size(); ++d) ok = sorted[d] == d;
  if (!ok) {
    std::string given;
    for (unsigned d : permutation) given += (given.empty() ? "" : ",") + std::to_string(d);
    Fail("Tensor::dimShuffle: {" + given + "} is not a permutation of the dimensions of shape " +
         shapeToString());
  }
  const Tensor t = aligned();
  const auto permute = [&](const Shape& in) {
    Shape out(in.size());
    for (std::size_t d = 0; d < in.size(); ++d) out[d] = in[permutation[d]];
    return out;
  };
  std::vector<Block> blocks = t.blocks();
  for (Block& b : blocks) {
    b.begin = permute(b.begin);
    b.view.shape = permute(b.view.shape);
    b.view.strides = permute(b.view.strides);
  }
  return t.withBlocks(permute(t.layout()), std::move(blocks));
}

Tensor Tensor::dimRoll(unsigned dimIdx, unsigned newIdx) const {
  CheckDim("dimRoll", dimIdx);
  CheckDim("dimRoll", newIdx);
  std::vector<unsigned> permutation;
  for (unsigned d = 0; d < rank(); ++d) {
    if (d != dimIdx) permutation.push_back(d);
  }
  permutation.insert(permutation.begin() + newIdx, dimIdx);
  return dimShuffle(permutation);
}

Tensor Tensor::transpose() const {
  if (rank() != 2) Fail("Tensor::transpose: needs two dimensions, the tensor has shape " + shapeToString());
  return dimShuffle({1, 0});
}

Tensor Tensor::flatten() const { return reshape({numElements()}); }

Tensor Tensor::flatten(unsigned dimBegin, unsigned dimEnd) const {
  if (dimBegin > dimEnd || dimEnd > rank()) {
    Fail("Tensor::flatten: dimensions [" + std::to_string(dimBegin) + ", " + std::to_string(dimEnd) +
         ") are not in a tensor of shape " + shapeToString());
  }
  std::size_t n = 1;
  for (unsigned d = dimBegin; d < dimEnd; ++d) n *= this->shape()[d];
  return reshapePartial(dimBegin, dimEnd, {n});
}

Tensor Tensor::expand(const std::vector<std::size_t>& indices) const {
  std::vector<std::size_t> shape, sorted = indices;
  std::sort(sorted.begin(), sorted.end());
  std::size_t next = 0;
  for (std::size_t d = 0; d <= this->shape().size(); ++d) {
    for (; next < sorted.size() && sorted[next] == d; ++next) shape.push_back(1);
    if (d < this->shape().size()) shape.push_back(this->shape()[d]);
  }
  if (next != sorted.size()) {
    Fail("Tensor::expand: no place before dimension " + std::to_string(sorted[next]) +
         " in a tensor of shape " + shapeToString());
  }
  return reshape(shape);
}

Tensor Tensor::squeeze(const std::vector<std::size_t>& dims) const {
  std::vector<std::size_t> shape;
  for (std::size_t d : dims) {
    CheckDim("squeeze", static_cast<unsigned>(d));
    if (this->shape()[d] != 1) {
      Fail("Tensor::squeeze: dimension " + std::to_string(d) + " of a tensor of shape " + shapeToString() +
           " is not 1");
    }
  }
  for (std::size_t d = 0; d < this->shape().size(); ++d) {
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) shape.push_back(this->shape()[d]);
  }
  return reshape(shape);
}

Tensor Tensor::broadcast(unsigned N, unsigned dimension) const {
  CheckDim("broadcast", dimension);
  if (this->shape()[dimension] != 1) {
    // The whole dimension N times in a row: a new outer dimension, merged.
    std::vector<std::size_t> shape = this->shape();
    shape[dimension] *= N;
    return expand({dimension}).broadcast(N, dimension).reshape(shape);
  }
  const Tensor t = aligned();
  Shape shape = t.layout();
  shape[dimension] = N;
  std::vector<Block> blocks = t.blocks();
  for (Block& b : blocks) {
    b.view.shape[dimension] = N;
    b.view.strides[dimension] = 0;
  }
  return t.withBlocks(std::move(shape), std::move(blocks));
}

Tensor Tensor::subSample(unsigned stride, unsigned dimension) const {
  CheckDim("subSample", dimension);
  if (stride == 0) Fail("Tensor::subSample: the stride is 0, for a tensor of shape " + shapeToString());
  const Tensor t = aligned();
  const std::int64_t step = stride;
  Shape shape = t.layout();
  shape[dimension] = (shape[dimension] + step - 1) / step;
  std::vector<Block> blocks;
  for (const Block& b : t.blocks()) {
    const std::int64_t begin = (b.begin[dimension] + step - 1) / step;
    const std::int64_t end = (b.begin[dimension] + b.view.shape[dimension] + step - 1) / step;
    if (begin >= end) continue;
    Block sampled = b;
    sampled.begin[dimension] = begin;
    sampled.view.offset += (begin * step - b.begin[dimension]) * b.view.strides[dimension];
    sampled.view.shape[dimension] = end - begin;
    sampled.view.strides[dimension] *= step;
    blocks.push_back(std::move(sampled));
  }
  if (blocks.empty()) blocks = t.blocks();
  return t.withBlocks(std::move(shape), std::move(blocks));
}

Tensor Tensor::reverse(unsigned dimension) const {
  CheckDim("reverse", dimension);
  const Tensor t = aligned();
  if (t.numElements() == 0) return t;
  std::vector<Block> blocks = t.blocks();
  for (Block& b : blocks) {
    b.begin[dimension] = t.layout()[dimension] - b.begin[dimension] - b.view.shape[dimension];
    b.view.offset += (b.view.shape[dimension] - 1) * b.view.strides[dimension];
    b.view.strides[dimension] = -b.view.strides[dimension];
  }
  return t.withBlocks(t.layout(), std::move(blocks));
}

Tensor Tensor::reinterpret(const Type& type) const {
  if (!valid()) Fail("Tensor::reinterpret: the tensor is empty (default-constructed)");
  if (ipu_model::SizeOf(type.id()) != ipu_model::SizeOf(elementType().id())) {
    throw type_error("Tensor::reinterpret: elements of " + elementType().toString() + " and " +
                     type.toString() + " differ in size");
  }
  auto reinterpreted = std::make_shared<Data>(data());
  reinterpreted->type = type;
  if (!type.requiresMetadata()) reinterpreted->metadata = nullptr;
  for (Block& b : reinterpreted->blocks) b.view.type = type.id();
  return Tensor(std::move(reinterpreted));
}

bool Tensor::containsAliases() const {
  std::vector<View> views;
  for (const Block& b : blocks()) views.push_back(b.view);
  return !ipu_model::AreDisjoint(views);
}

bool Tensor::isParallelWriteable() const { return !containsAliases() && !containsConstant(); }

bool Tensor::isContiguous() const {
  if (numElements() == 0) return true;
  // Blocks may follow one another in memory.
  return blocks().size() == 1 ? ipu_model::IsRowMajorContiguous(blocks()[0].view)
                              : getVarRegions().size() == 1;
}

Tensor concat(const std::vector<Tensor>& tensors, unsigned dimension) {
  if (tensors.empty()) Fail("concat: no tensors");
  tensors[0].CheckDim("concat", dimension);
  if (tensors.size() == 1) return tensors[0];
  const Tensor& t = tensors[0];
  Shape shape = ToShape(t.shape());
  shape[dimension] = 0;
  std::vector<Block> blocks, empty;
  for (const Tensor& part : tensors) {
    bool same = part.valid() && part.rank() == t.rank() && part.elementType() == t.elementType() &&
                part.graph() == t.graph();
    for (unsigned d = 0; same && d < t.rank(); ++d) same = d == dimension || part.shape()[d] == t.shape()[d];
    if (!same) {
      Fail("concat along dimension " + std::to_string(dimension) + ": " + t.elementType().toString() +
           t.shapeToString() + " and " + part.elementType().toString() + part.shapeToString() +
           " do not fit");
    }
    const Tensor aligned = part.aligned();
    if (part.numElements() == 0) {
      empty.insert(empty.end(), aligned.blocks().begin(), aligned.blocks().end());
    } else {
      for (Block b : aligned.blocks()) {
        b.begin[dimension] += shape[dimension];
        if (blocks.empty() || !Join(&blocks.back(), b, dimension)) blocks.push_back(std::move(b));
      }
    }
    shape[dimension] += static_cast<std::int64_t>(part.shape()[dimension]);
  }
  return t.withBlocks(std::move(shape), blocks.empty() ? std::move(empty) : std::move(blocks));
}

Tensor concat(const Tensor& first, const Tensor& second, unsigned dimension) {
  return concat({first, second}, dimension);
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

}  // namespace ipu_model
