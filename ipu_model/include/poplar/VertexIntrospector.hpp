// What an estimator of cycles may ask about a vertex: the sizes of its fields and the numbers in its state.
// Source: Graphcore's Poplar and PopLibs API reference, classes poplar::VertexIntrospector and
// poplar::FieldData.
#ifndef POPLAR_VERTEXINTROSPECTOR_HPP
#define POPLAR_VERTEXINTROSPECTOR_HPP

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "poplar/Target.hpp"
#include "poplar/VectorLayout.hpp"

namespace poplar {

// A field: an edge or a number has size 1, a vector its number of elements, several edges their number.
class FieldData {
 public:
  class SizeT {
   public:
    explicit SizeT(std::size_t size) : size_(size) {}
    std::size_t size() const { return size_; }

   private:
    std::size_t size_;
  };
  FieldData() = default;
  FieldData(std::string name, std::size_t size, std::vector<std::size_t> edges, std::vector<double> values,
            VectorLayout layout)
      : name_(std::move(name)),
        size_(size),
        edges_(std::move(edges)),
        values_(std::move(values)),
        layout_(layout) {}

  const std::string& name() const { return name_; }
  std::size_t size() const { return size_; }
  // The size of an edge of several. Throws std::out_of_range.
  SizeT operator[](std::size_t i) const { return SizeT(edges_.at(i)); }
  std::size_t getSizeAtIndex(std::size_t i) const { return edges_.at(i); }
  // Throws std::out_of_range if the field has no such number.
  template <typename T>
  T getInitialValue(const Target& /*target*/, std::size_t i = 0) const {
    return static_cast<T>(values_.at(i));
  }
  template <typename T>
  std::vector<T> getInitialValues(const Target& /*target*/) const {
    return std::vector<T>(values_.begin(), values_.end());
  }
  VectorLayout getProfilerVectorLayout(unsigned /*nestingLevel*/) const { return layout_; }

 private:
  std::string name_;
  std::size_t size_ = 0;
  std::vector<std::size_t> edges_;
  std::vector<double> values_;
  VectorLayout layout_ = VectorLayout::NOT_VECTOR;
};

class VertexIntrospector {
 public:
  VertexIntrospector(std::string type, std::vector<FieldData> fields)
      : type_(std::move(type)), fields_(std::move(fields)) {}
  const std::string& getVertexName() const { return type_; }
  // Throws unknown_field.
  const FieldData& getFieldInfo(const std::string& name) const;

 private:
  std::string type_;
  std::vector<FieldData> fields_;
};

}  // namespace poplar

#endif  // POPLAR_VERTEXINTROSPECTOR_HPP
