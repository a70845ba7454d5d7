// A tensor is a view: an ordered list of references to elements of variables. Copying a Tensor never copies
// data. Methods that take dimensions, ranges or shapes throw poplar_error that names the method and the
// tensor's shape when these do not fit: index_error for an element or a dimension that there is not,
// overflow_error for more elements than 64 bits can count. A default-constructed tensor is empty: it is not
// valid(), and what needs elements, a shape or a type throws poplar_error. Source: Graphcore's Poplar and
// PopLibs API reference, class poplar::Tensor.
#ifndef POPLAR_TENSOR_HPP
#define POPLAR_TENSOR_HPP

#include <cstddef>
#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "poplar/ArrayRef.hpp"
#include "poplar/DebugContext.hpp"
#include "poplar/Interval.hpp"
#include "poplar/StringRef.hpp"
#include "poplar/Type.hpp"
#include "poplar/VariableRef.hpp"

namespace ipu_model {
struct View;    // core/mapping/box.h
class Blocks;   // core/mapping/blocks.h
struct Tiling;  // core/mapping/tiling.h
}  // namespace ipu_model

namespace poplar {

// What Tensor::upsample puts into the new elements: copies of the element before them.
enum class UpsampleMethod { REPEAT };

class Tensor {
 public:
  Tensor() = default;

  Tensor operator[](std::size_t i) const;
  Tensor slice(std::size_t begin, std::size_t end, unsigned dimension = 0) const;
  Tensor slice(const Interval& region, unsigned dimension = 0) const;
  Tensor slice(ArrayRef<std::size_t> begin, ArrayRef<std::size_t> end) const;
  // The slices of several regions: of each interval, of each set of intervals (one after another), and of
  // each index. Without a dimension: of the first.
  std::vector<Tensor> slices(ArrayRef<Interval> intervals, unsigned dimension = 0) const;
  std::vector<Tensor> slices(const std::vector<std::vector<Interval>>& intervals,
                             unsigned dimension = 0) const;
  std::vector<Tensor> slices(ArrayRef<unsigned> indices, unsigned dimension = 0) const;
  Tensor index(const std::vector<std::size_t>& indices) const;
  Tensor reshape(const std::vector<std::size_t>& shape) const;
  Tensor reshapePartial(unsigned beginIndex, unsigned endIndex,
                        const std::vector<std::size_t>& newDims) const;
  Tensor dimShuffle(const std::vector<unsigned>& permutation) const;
  // Dimension source[i] becomes dimension destination[i]; the others keep their order.
  Tensor dimShufflePartial(const std::vector<unsigned>& source,
                           const std::vector<unsigned>& destination) const;
  Tensor dimRoll(unsigned dimIdx, unsigned newIdx = 0) const;
  Tensor transpose() const;
  Tensor flatten() const;
  Tensor flatten(unsigned dimBegin, unsigned dimEnd) const;
  Tensor expand(const std::vector<std::size_t>& indices) const;
  Tensor squeeze(const std::vector<std::size_t>& dims) const;
  Tensor broadcast(unsigned N, unsigned dimension) const;
  Tensor subSample(unsigned stride, unsigned dimension) const;
  Tensor reverse(unsigned dimension) const;
  // Every element `scale` times, one after another.
  Tensor upsample(unsigned scale, unsigned dimension, UpsampleMethod method) const;
  Tensor reinterpret(const Type& type) const;  // same element size, else type_error

  const std::vector<std::size_t>& shape() const;
  std::size_t dim(unsigned i) const;
  unsigned rank() const { return static_cast<unsigned>(shape().size()); }
  std::size_t numElements() const;
  Type elementType() const;
  bool valid() const { return data_ != nullptr; }  // false: default-constructed
  bool containsAliases() const;
  bool containsConstant() const;
  bool isParallelWriteable() const;
  bool isContiguous() const;
  std::string shapeToString() const;
  // Whether the tensors share an element in memory.
  bool intersectsWith(const Tensor& other) const;
  // The regions of the flattened tensor that lie together in memory, in order.
  std::vector<Interval> getContiguousRegions() const;
  // The elements as regions of variables, in order. Adjacent ones are one region.
  std::vector<VariableInterval> getVarRegions() const;
  // The value of a constant of one element, converted to T. Returns false if the tensor is anything else.
  template <typename T>
  bool getConstantValue(T* value) const {
    double number = 0;
    std::int64_t integer = 0;
    if (!constantNumber(&number, &integer)) return false;
    *value = std::is_integral_v<T> ? static_cast<T>(integer) : static_cast<T>(number);
    return true;
  }
  // The metadata of a QUARTER; not valid() for other types.
  Tensor getMetadata() const;
  bool hasMetadata() const;
  std::string getVarStr() const;    // the names of its variables
  std::string getDebugStr() const;  // names, type, shape
  // Writes the shape and each region.
  void output(std::ostream& out) const;
  // Writes the regions alone: name#number[begin,end) of each variable's.
  void outputRegions(std::ostream& out) const;
  friend std::ostream& operator<<(std::ostream& out, const Tensor& tensor) {
    tensor.output(out);
    return out;
  }
  // Whether the tensors have the same shape, type and elements.
  friend bool operator==(const Tensor& a, const Tensor& b) { return a.equals(b); }
  friend bool operator!=(const Tensor& a, const Tensor& b) { return !a.equals(b); }

#ifndef POPLAR_API_ONLY
  // Internals of the model, not part of Poplar: the headers in core/ declare the types.
  //
  // The views whose elements, view after view, are the tensor's elements in row-major order; independent of
  // shape(). Operations directly take a tensor that is one strided view over shape().
  std::vector<ipu_model::View> pieces() const;
  // True, and *view filled with strides over shape(), when the tensor is one strided view.
  bool asView(ipu_model::View* view) const;
  // The tensor's elements in row-major order over space(), an index space that has as many elements as
  // shape(). It refines the shape (core/mapping/tiling.h), or the shape before a reshape that would need more
  // blocks.
  const std::vector<std::int64_t>& space() const;
  const ipu_model::Blocks& blocks() const;
  const ipu_model::Tiling& tiling() const;
  // The same elements with space() equal to shape(), in as many blocks as that needs.
  Tensor aligned() const;
  static Tensor fromView(const ipu_model::View& view, const void* graph);
  static Tensor fromPieces(Type type, std::vector<std::size_t> shape, std::vector<ipu_model::View> pieces,
                           const void* graph);
  // The ipu_model::GraphImpl that owns the variables; null when it is gone. The number of the graph, which
  // no other has, is that of the tensor for good.
  const void* graph() const;
  std::uint32_t graphNumber() const;
  // The same with this type, of the same representation, and this metadata.
  Tensor withType(const Type& type, const Tensor& metadata) const;
#endif

 private:
  bool constantNumber(double* number, std::int64_t* integer) const;
  bool equals(const Tensor& other) const;
  friend Tensor concat(const std::vector<Tensor>& tensors, unsigned dimension);
  struct Data;
  explicit Tensor(std::shared_ptr<const Data> data) : data_(std::move(data)) {}
  const Data& data() const;
  // The same with another shape and tiling.
  Tensor with(std::vector<std::int64_t> shape, ipu_model::Tiling tiling) const;
  void CheckValid(const char* method) const;
  void CheckDim(const char* method, std::size_t dimension) const;

  std::shared_ptr<const Data> data_;  // never changes, so that copies share it; null: not valid()
};

// Concatenates the tensors along `dimension`. Throws poplar_error when they differ in type, in graph or in
// another dimension, and tensor_metadata_error for tensors of QUARTER with different metadata.
Tensor concat(const std::vector<Tensor>& tensors, unsigned dimension = 0);
Tensor concat(const Tensor& first, const Tensor& second, unsigned dimension = 0);
// Adds a dimension of size 1 to `second`, and concatenates.
Tensor append(const Tensor& first, const Tensor& second, unsigned dimension);
inline Tensor append(const Tensor& first, const Tensor& second) { return append(first, second, 0); }

}  // namespace poplar

#endif  // POPLAR_TENSOR_HPP
