// poplar::Tensor: tensors of a part of the elements, or of the same elements in another order or shape.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/graph/tensor_shape.h"
#include "core/mapping/blocks.h"
#include "core/mapping/strides.h"
#include "core/mapping/tiling.h"
#include "poplar/Tensor.hpp"

namespace poplar {

using ipu_model::Blocks;
using ipu_model::Fail;
using ipu_model::FailIndex;
using ipu_model::GroupsOf;
using ipu_model::SameShape;
using ipu_model::Shape;
using ipu_model::Tiling;
using ipu_model::ToShape;

namespace {

// The dimensions of a tensor's space that make up each dimension of its shape: [first[d], first[d + 1]).
struct Grouped {
  Tiling tiling;
  std::vector<std::size_t> first;
};

Grouped GroupedTiling(const Tensor& tensor) {
  const Shape shape = ToShape(tensor.shape());
  Grouped g{tensor.tiling(), {}};
  if (shape == g.tiling.space) {
    for (std::size_t d = 0; d <= shape.size(); ++d) g.first.push_back(d);
    return g;
  }
  Refine(shape, false, &g.tiling);
  MergeGroups(shape, &g.tiling);
  GroupsOf(shape, g.tiling.space, &g.first);
  return g;
}

}  // namespace

Tensor Tensor::slice(std::size_t begin, std::size_t end, unsigned dimension) const {
  CheckDim("slice", dimension);
  if (begin > end || end > this->shape()[dimension]) {
    FailIndex("Tensor::slice: [" + std::to_string(begin) + ", " + std::to_string(end) + ") of dimension " +
              std::to_string(dimension) + " is not inside a tensor of shape " + shapeToString());
  }
  if (begin == 0 && end == this->shape()[dimension]) return *this;
  Shape shape = ToShape(this->shape());
  const auto from = static_cast<std::int64_t>(begin), to = static_cast<std::int64_t>(end);
  shape[dimension] = to - from;
  if (ipu_model::NumElements(shape) == 0) return with(std::move(shape), {});
  if (SameShape(this->shape(), space())) {
    Tiling tiling{shape, blocks().Clipped(dimension, {{from}, {to}})};
    return with(std::move(shape), std::move(tiling));
  }
  Grouped g = GroupedTiling(*this);
  SelectInGroup(g.first[dimension], g.first[dimension + 1], from, to, &g.tiling);
  MergeGroups(shape, &g.tiling);
  return with(std::move(shape), std::move(g.tiling));
}

Tensor Tensor::slice(const Interval& region, unsigned dimension) const {
  return slice(region.begin(), region.end(), dimension);
}

Tensor Tensor::slice(ArrayRef<std::size_t> begin, ArrayRef<std::size_t> end) const {
  CheckValid("slice");
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
  CheckValid("index");
  if (indices.size() > this->shape().size()) {
    FailIndex("Tensor::index: " + std::to_string(indices.size()) + " indices for a tensor of shape " +
              shapeToString());
  }
  Tensor t = *this;
  for (std::size_t i : indices) t = t[i];
  return t;
}

Tensor Tensor::reshapePartial(unsigned beginIndex, unsigned endIndex,
                              const std::vector<std::size_t>& newDims) const {
  CheckValid("reshapePartial");
  if (beginIndex > endIndex || endIndex > rank()) {
    FailIndex("Tensor::reshapePartial: dimensions [" + std::to_string(beginIndex) + ", " +
              std::to_string(endIndex) + ") are not in a tensor of shape " + shapeToString());
  }
  std::vector<std::size_t> shape(this->shape().begin(), this->shape().begin() + beginIndex);
  shape.insert(shape.end(), newDims.begin(), newDims.end());
  shape.insert(shape.end(), this->shape().begin() + endIndex, this->shape().end());
  return reshape(shape);
}

Tensor Tensor::dimShuffle(const std::vector<unsigned>& permutation) const {
  CheckValid("dimShuffle");
  std::vector<unsigned> sorted = permutation;
  std::sort(sorted.begin(), sorted.end());
  bool ok = sorted.size() == this->shape().size();
  for (unsigned d = 0; ok && d < sorted.size(); ++d) ok = sorted[d] == d;
  if (!ok) {
    std::string given;
    for (unsigned d : permutation) given += (given.empty() ? "" : ",") + std::to_string(d);
    Fail("Tensor::dimShuffle: {" + given + "} is not a permutation of the dimensions of shape " +
         shapeToString());
  }
  Grouped g = GroupedTiling(*this);
  Shape shape(rank());
  std::vector<std::size_t> order;  // of the dimensions of the space
  for (std::size_t d = 0; d < shape.size(); ++d) {
    shape[d] = static_cast<std::int64_t>(this->shape()[permutation[d]]);
    for (std::size_t k = g.first[permutation[d]]; k < g.first[permutation[d] + 1]; ++k) order.push_back(k);
  }
  Tiling shuffled{Shape(order.size()), Blocks(order.size())};
  for (std::size_t k = 0; k < order.size(); ++k) shuffled.space[k] = g.tiling.space[order[k]];
  shuffled.blocks.Reserve(g.tiling.blocks.size());
  for (std::size_t i = 0; i < g.tiling.blocks.size(); ++i) {
    const ipu_model::ConstBlock b = std::as_const(g.tiling.blocks)[i];
    const ipu_model::Block s = shuffled.blocks.Append(b.variable(), b.offset());
    for (std::size_t k = 0; k < order.size(); ++k) {
      s.begin(k) = b.begin(order[k]);
      s.extent(k) = b.extent(order[k]);
      s.stride(k) = b.stride(order[k]);
    }
  }
  MergeGroups(shape, &shuffled);
  return with(std::move(shape), std::move(shuffled));
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
  CheckValid("transpose");
  if (rank() != 2) Fail("Tensor::transpose: needs two dimensions, the tensor has shape " + shapeToString());
  return dimShuffle({1, 0});
}

Tensor Tensor::flatten() const {
  CheckValid("flatten");
  return reshape({numElements()});
}

Tensor Tensor::flatten(unsigned dimBegin, unsigned dimEnd) const {
  CheckValid("flatten");
  if (dimBegin > dimEnd || dimEnd > rank()) {
    FailIndex("Tensor::flatten: dimensions [" + std::to_string(dimBegin) + ", " + std::to_string(dimEnd) +
              ") are not in a tensor of shape " + shapeToString());
  }
  std::size_t n = 1;
  for (unsigned d = dimBegin; d < dimEnd; ++d) n *= this->shape()[d];
  return reshapePartial(dimBegin, dimEnd, {n});
}

Tensor Tensor::expand(const std::vector<std::size_t>& indices) const {
  CheckValid("expand");
  std::vector<std::size_t> shape, sorted = indices;
  std::sort(sorted.begin(), sorted.end());
  std::size_t next = 0;
  for (std::size_t d = 0; d <= this->shape().size(); ++d) {
    for (; next < sorted.size() && sorted[next] == d; ++next) shape.push_back(1);
    if (d < this->shape().size()) shape.push_back(this->shape()[d]);
  }
  if (next != sorted.size()) {
    FailIndex("Tensor::expand: no place before dimension " + std::to_string(sorted[next]) +
              " in a tensor of shape " + shapeToString());
  }
  return reshape(shape);
}

Tensor Tensor::squeeze(const std::vector<std::size_t>& dims) const {
  CheckValid("squeeze");
  std::vector<std::size_t> shape;
  for (std::size_t d : dims) {
    CheckDim("squeeze", d);
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
  std::vector<std::size_t> dims = this->shape();
  dims[dimension] = N;
  Shape shape = ipu_model::CheckedShape("Tensor::broadcast", dims);
  if (ipu_model::NumElements(shape) == 0) return with(std::move(shape), {});
  Grouped g = GroupedTiling(*this);
  const std::size_t k = g.first[dimension];  // the group has this dimension alone
  g.tiling.space[k] = N;
  for (std::size_t i = 0; i < g.tiling.blocks.size(); ++i) {
    const ipu_model::Block b = g.tiling.blocks[i];
    b.extent(k) = N;
    b.stride(k) = 0;
  }
  return with(std::move(shape), std::move(g.tiling));
}

Tensor Tensor::subSample(unsigned stride, unsigned dimension) const {
  CheckDim("subSample", dimension);
  if (stride == 0) Fail("Tensor::subSample: the stride is 0, for a tensor of shape " + shapeToString());
  const std::int64_t step = stride;
  Shape shape = ToShape(this->shape());
  shape[dimension] = (shape[dimension] + step - 1) / step;
  if (ipu_model::NumElements(shape) == 0) return with(std::move(shape), {});
  Grouped g = GroupedTiling(*this);
  // Where the step divides a group's innermost dimension, samples of that dimension are those of the group.
  std::size_t k = g.first[dimension + 1] - 1;
  if (k != g.first[dimension] && g.tiling.space[k] % step != 0) {
    k = g.first[dimension];
    Collapse(k, g.first[dimension + 1], &g.tiling);
  }
  g.tiling.space[k] = (g.tiling.space[k] + step - 1) / step;
  Blocks samples(g.tiling.space.size());
  for (std::size_t i = 0; i < g.tiling.blocks.size(); ++i) {
    const ipu_model::ConstBlock b = std::as_const(g.tiling.blocks)[i];
    const std::int64_t begin = (b.begin(k) + step - 1) / step, end = (b.end(k) + step - 1) / step;
    if (begin >= end) continue;
    const ipu_model::Block s = samples.Append(b);
    s.begin(k) = begin;
    s.offset() += (begin * step - b.begin(k)) * b.stride(k);
    s.extent(k) = end - begin;
    s.stride(k) *= step;
  }
  g.tiling.blocks = std::move(samples);
  MergeGroups(shape, &g.tiling);
  return with(std::move(shape), std::move(g.tiling));
}

Tensor Tensor::reverse(unsigned dimension) const {
  CheckDim("reverse", dimension);
  if (numElements() == 0) return *this;
  Grouped g = GroupedTiling(*this);
  for (std::size_t k = g.first[dimension]; k < g.first[dimension + 1]; ++k) {
    for (std::size_t i = 0; i < g.tiling.blocks.size(); ++i) {
      const ipu_model::Block b = g.tiling.blocks[i];
      b.begin(k) = g.tiling.space[k] - b.end(k);
      b.offset() += (b.extent(k) - 1) * b.stride(k);
      b.stride(k) = -b.stride(k);
    }
  }
  return with(ToShape(this->shape()), std::move(g.tiling));
}

namespace {

// The elements of one tensor of QUARTER have one format.
void CheckSameMetadata(const Tensor& first, const Tensor& part) {
  if (!first.hasMetadata() && !part.hasMetadata()) return;
  if (first.hasMetadata() && part.hasMetadata()) {
    const Tensor a = first.getMetadata(), b = part.getMetadata();
    unsigned char x = 0, y = 0;
    if (a.flatten() == b.flatten() || (a.getConstantValue(&x) && b.getConstantValue(&y) && x == y)) return;
  }
  throw tensor_metadata_error("concat: " + first.getDebugStr() + " and " + part.getDebugStr() +
                              " have different metadata");
}

}  // namespace

Tensor concat(const std::vector<Tensor>& tensors, unsigned dimension) {
  if (tensors.empty()) Fail("concat: no tensors");
  tensors[0].CheckDim("concat", dimension);
  if (tensors.size() == 1) return tensors[0];
  const Tensor& t = tensors[0];
  Shape shape = ToShape(t.shape());
  shape[dimension] = 0;
  std::vector<const Tiling*> parts;
  std::vector<Shape> shapes;
  for (const Tensor& part : tensors) {
    bool same = part.valid() && part.rank() == t.rank() && part.elementType() == t.elementType() &&
                part.graph() == t.graph();
    for (unsigned d = 0; same && d < t.rank(); ++d) same = d == dimension || part.shape()[d] == t.shape()[d];
    if (!same) {
      Fail("concat along dimension " + std::to_string(dimension) + ": " + t.elementType().toString() +
           t.shapeToString() + " and " + part.elementType().toString() + part.shapeToString() +
           " do not fit");
    }
    CheckSameMetadata(t, part);
    if (part.numElements() > 0) {
      parts.push_back(&part.tiling());
      shapes.push_back(ToShape(part.shape()));
    }
    shape[dimension] += static_cast<std::int64_t>(part.shape()[dimension]);
  }
  (void)ipu_model::CheckedShape("concat", std::vector<std::size_t>(shape.begin(), shape.end()));
  if (parts.empty()) return t.with(std::move(shape), {});
  Tiling all = Concatenate(parts, shapes, dimension);
  MergeGroups(shape, &all);
  return t.with(std::move(shape), std::move(all));
}

Tensor concat(const Tensor& first, const Tensor& second, unsigned dimension) {
  return concat({first, second}, dimension);
}

}  // namespace poplar
