// Compute sets, vertices and their fields: small handles. Source: Graphcore's Poplar and PopLibs API
// reference, classes poplar::ComputeSet, poplar::VertexRef, poplar::FieldRef and poplar::ConnectionDesc.
#ifndef POPLAR_GRAPHELEMENTS_HPP
#define POPLAR_GRAPHELEMENTS_HPP

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "poplar/Tensor.hpp"

namespace ipu_model {
struct ComputeSetData;  // core/graph/compute_set.h

// A number of any type in a graph, before the type of the field or constant that it is for is known.
struct Number {
  double real = 0;
  std::int64_t integer = 0;
  bool is_real = false;
};
template <typename T>
Number NumberOf(T value) {
  Number n;
  if constexpr (std::is_enum_v<T>) {
    n.integer = static_cast<std::int64_t>(value);
  } else if constexpr (std::is_integral_v<T>) {
    n.integer = static_cast<std::int64_t>(value);
  } else {
    n.real = static_cast<double>(value);
    n.is_real = true;
  }
  if (!n.is_real) n.real = static_cast<double>(n.integer);
  return n;
}
template <typename T>
std::vector<Number> NumbersOf(const std::vector<T>& values) {
  std::vector<Number> numbers;
  for (const T value : values) numbers.push_back(NumberOf(value));
  return numbers;
}
template <typename T>
constexpr bool kIsNumber = std::is_arithmetic_v<T> || std::is_enum_v<T>;
}  // namespace ipu_model

namespace poplar {

// Vertices that run in one superstep. Executed with program::Execute.
class ComputeSet {
 public:
  ComputeSet() = default;
  explicit ComputeSet(std::shared_ptr<ipu_model::ComputeSetData> data) : data_(std::move(data)) {}
  unsigned getId() const;

#ifndef POPLAR_API_ONLY
  const std::shared_ptr<ipu_model::ComputeSetData>& data() const { return data_; }  // not part of Poplar
#endif

 private:
  std::shared_ptr<ipu_model::ComputeSetData> data_;
};

class FieldRef;

class VertexRef {
 public:
  VertexRef() = default;
  VertexRef(std::shared_ptr<ipu_model::ComputeSetData> set, std::size_t index)
      : set_(std::move(set)), index_(index) {}
  FieldRef operator[](const std::string& fieldName) const;
  unsigned getId() const { return static_cast<unsigned>(index_); }  // in its compute set

#ifndef POPLAR_API_ONLY
  const std::shared_ptr<ipu_model::ComputeSetData>& set() const { return set_; }  // not part of Poplar
  std::size_t index() const { return index_; }
#endif

 private:
  std::shared_ptr<ipu_model::ComputeSetData> set_;
  std::size_t index_ = 0;
};

// A field of a vertex, or one edge of a field of several edges.
class FieldRef {
 public:
  FieldRef(VertexRef vertex, std::string name) : vertex_(std::move(vertex)), name_(std::move(name)) {}
  FieldRef operator[](std::size_t index) const {
    FieldRef edge = *this;
    edge.index_ = index;
    edge.indexed_ = true;
    return edge;
  }
  bool isIndexed() const { return indexed_; }
  std::size_t getIndex() const { return index_; }

#ifndef POPLAR_API_ONLY
  const VertexRef& vertex() const { return vertex_; }  // not part of Poplar
  const std::string& name() const { return name_; }
#endif

 private:
  VertexRef vertex_;
  std::string name_;
  std::size_t index_ = 0;
  bool indexed_ = false;
};

inline FieldRef VertexRef::operator[](const std::string& fieldName) const { return {*this, fieldName}; }

// A field by its name and what Graph::addVertex connects it to.
struct ConnectionDesc {
  ConnectionDesc(std::string f, Tensor t) : field(std::move(f)), tensors{std::move(t)} {}
  ConnectionDesc(std::string f, std::vector<Tensor> t)
      : field(std::move(f)), tensors(std::move(t)), is_list(true) {}
  template <typename T, std::enable_if_t<ipu_model::kIsNumber<T>, int> = 0>
  ConnectionDesc(std::string f, T value) : field(std::move(f)), values{ipu_model::NumberOf(value)} {}
  template <typename T, std::enable_if_t<ipu_model::kIsNumber<T>, int> = 0>
  ConnectionDesc(std::string f, const std::vector<T>& v)
      : field(std::move(f)), values(ipu_model::NumbersOf(v)), is_list(true) {}

  std::string field;
  std::vector<Tensor> tensors;
  std::vector<ipu_model::Number> values;
  bool is_list = false;
};

}  // namespace poplar

#endif  // POPLAR_GRAPHELEMENTS_HPP
