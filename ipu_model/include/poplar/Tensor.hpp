// A tensor is a view: an ordered list of references to elements of variables. Copying a Tensor never copies
// data.
#ifndef POPLAR_TENSOR_HPP
#define POPLAR_TENSOR_HPP

#include <cstddef>
#include <string>
#include <vector>

#include "core/box.h"
#include "poplar/Interval.hpp"
#include "poplar/Type.hpp"

namespace poplar {

class Tensor {
 public:
  Tensor() = default;

  Tensor operator[](std::size_t i) const;
  Tensor slice(std::size_t begin, std::size_t end, unsigned dimension = 0) const;
  Tensor slice(const Interval& region, unsigned dimension = 0) const;
  Tensor slice(const std::vector<std::size_t>& begin, const std::vector<std::size_t>& end) const;
  Tensor index(const std::vector<std::size_t>& indices) const;
  Tensor reshape(const std::vector<std::size_t>& shape) const;
  Tensor reshapePartial(unsigned beginIndex, unsigned endIndex,
                        const std::vector<std::size_t>& newDims) const;
  Tensor dimShuffle(const std::vector<unsigned>& permutation) const;
  Tensor dimRoll(unsigned dimIdx, unsigned newIdx = 0) const;
  Tensor transpose() const;
  Tensor flatten() const;
  Tensor flatten(unsigned dimBegin, unsigned dimEnd) const;
  Tensor expand(const std::vector<std::size_t>& indices) const;
  Tensor squeeze(const std::vector<std::size_t>& dims) const;
  Tensor broadcast(unsigned N, unsigned dimension) const;
  Tensor subSample(unsigned stride, unsigned dimension) const;
  Tensor reverse(unsigned dimension) const;
  Tensor reinterpret(const Type& type) const;  // same element size

  const std::vector<std::size_t>& shape() const { return shape_; }
  std::size_t dim(unsigned i) const { return shape_.at(i); }
  unsigned rank() const { return static_cast<unsigned>(shape_.size()); }
  std::size_t numElements() const;
  Type elementType() const { return type_; }
  bool valid() const { return valid_; }
  bool containsAliases() const;
  bool containsConstant() const;
  bool isParallelWriteable() const;
  bool isContiguous() const;
  std::string shapeToString() const;

  // Model internals: views that hold the elements in row-major order, those of the first view, then of the
  // next; independent of shape(). A tensor that is one strided view over shape() is what operations take
  // directly.
  std::vector<ipu_model::View> pieces() const;
  // True, and *view filled with strides over shape(), when the tensor is one strided view.
  bool asView(ipu_model::View* view) const;
  // `view` shifted to its place in the tensor; blocks tile the layout.
  struct Block {
    ipu_model::Shape begin;
    ipu_model::View view;
  };
  // The tensor's elements in row-major order over layout(), which has as many elements as shape().
  const ipu_model::Shape& layout() const { return layout_; }
  const std::vector<Block>& blocks() const { return blocks_; }
  // The same elements with layout() equal to shape(), in as many blocks as it takes.
  Tensor aligned() const;
  static Tensor fromView(const ipu_model::View& view, const void* graph);
  static Tensor fromPieces(Type type, std::vector<std::size_t> shape, std::vector<ipu_model::View> pieces,
                           const void* graph);
  const void* graph() const { return graph_; }

 private:
  friend Tensor concat(const std::vector<Tensor>& tensors, unsigned dimension);
  void CheckDim(const char* method, unsigned dimension) const;
  void SetShape(ipu_model::Shape shape, std::vector<Block> blocks);

  bool valid_ = false;
  Type type_;
  std::vector<std::size_t> shape_;
  // A reshape that no strides express leaves the blocks over the earlier shape.
  ipu_model::Shape layout_;
  std::vector<Block> blocks_;
  const void* graph_ = nullptr;  // the ipu_model::GraphImpl that owns the variables; not owned
};

Tensor concat(const std::vector<Tensor>& tensors, unsigned dimension = 0);
Tensor concat(const Tensor& first, const Tensor& second, unsigned dimension = 0);

}  // namespace poplar

#endif  // POPLAR_TENSOR_HPP
