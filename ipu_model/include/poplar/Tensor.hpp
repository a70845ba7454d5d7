// A tensor is a view: an ordered list of references to elements of variables. Copying a Tensor never copies
// data. Methods that take dimensions, ranges or shapes throw poplar_error that names the method and the
// tensor's shape when these do not fit. Source: Graphcore's Poplar and PopLibs API reference, class
// poplar::Tensor.
#ifndef POPLAR_TENSOR_HPP
#define POPLAR_TENSOR_HPP

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "poplar/Interval.hpp"
#include "poplar/Type.hpp"

namespace ipu_model {
struct View;  // core/box.h
}

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

  const std::vector<std::size_t>& shape() const;
  std::size_t dim(unsigned i) const { return shape().at(i); }
  unsigned rank() const { return static_cast<unsigned>(shape().size()); }
  std::size_t numElements() const;
  Type elementType() const;
  bool valid() const { return data_ != nullptr; }  // false: default-constructed
  bool containsAliases() const;
  bool containsConstant() const;
  bool isParallelWriteable() const;
  bool isContiguous() const;
  std::string shapeToString() const;

  // Internals of the model, not part of Poplar: core/tensor_data.h declares the types.
  //
  // The views whose elements, view after view, are the tensor's elements in row-major order; independent of
  // shape(). Operations directly take a tensor that is one strided view over shape().
  std::vector<ipu_model::View> pieces() const;
  // True, and *view filled with strides over shape(), when the tensor is one strided view.
  bool asView(ipu_model::View* view) const;
  struct Block;
  // The tensor's elements in row-major order over layout(), which has as many elements as shape(). A reshape
  // that no strides express leaves the layout as it was.
  const std::vector<std::int64_t>& layout() const;
  const std::vector<Block>& blocks() const;
  // The same elements with layout() equal to shape(), in as many blocks as that needs.
  Tensor aligned() const;
  static Tensor fromView(const ipu_model::View& view, const void* graph);
  static Tensor fromPieces(Type type, std::vector<std::size_t> shape, std::vector<ipu_model::View> pieces,
                           const void* graph);
  // The ipu_model::GraphImpl that owns the variables; the tensor does not keep it alive.
  const void* graph() const;

 private:
  friend Tensor concat(const std::vector<Tensor>& tensors, unsigned dimension);
  struct Data;
  explicit Tensor(std::shared_ptr<const Data> data) : data_(std::move(data)) {}
  const Data& data() const;
  // A tensor whose layout is its shape.
  static Tensor make(Type type, const void* graph, std::vector<std::int64_t> shape,
                     std::vector<Block> blocks);
  // The same with this tensor's type and graph.
  Tensor withBlocks(std::vector<std::int64_t> shape, std::vector<Block> blocks) const;
  void CheckDim(const char* method, unsigned dimension) const;

  std::shared_ptr<const Data> data_;  // never changes, so that copies share it; null: not valid()
};

// Concatenates the tensors along `dimension`. Throws poplar_error when they differ in type, in graph or in
// another dimension.
Tensor concat(const std::vector<Tensor>& tensors, unsigned dimension = 0);
Tensor concat(const Tensor& first, const Tensor& second, unsigned dimension = 0);

}  // namespace poplar

#endif  // POPLAR_TENSOR_HPP
