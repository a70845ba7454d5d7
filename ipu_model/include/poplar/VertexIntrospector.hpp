// What an estimator of cycles may ask about a vertex: the sizes of its fields and the numbers in its state.
// Source: Graphcore's Poplar and PopLibs API reference, classes poplar::VertexIntrospector and
// poplar::FieldData.
#ifndef POPLAR_VERTEXINTROSPECTOR_HPP
#define POPLAR_VERTEXINTROSPECTOR_HPP

#include <cstddef>
#include <functional>
#include <stdexcept>
#include <string>
#include <type_traits>
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
    SizeT(const FieldData* field, std::size_t index) : field_(field), index_(index) {}
    std::size_t size() const { return field_->getSizeAtIndex(index_); }
    template <typename T>
    std::vector<T> getInitialValues(const Target& /*target*/) const {
      return Converted<T>(field_->Values(index_));
    }
    template <typename T>
    T getInitialValue(const Target& /*target*/, std::size_t i = 0) const {
      return static_cast<T>(field_->Values(index_).at(i));
    }

   private:
    const FieldData* field_;
    std::size_t index_;
  };
  // The numbers of an edge that is connected to constants; throws std::out_of_range for other edges.
  using EdgeValues = std::function<std::vector<double>(std::size_t edge)>;

  FieldData() = default;
  FieldData(std::string name, std::size_t size, std::vector<std::size_t> edges, std::vector<double> values,
            VectorLayout layout, VectorLayout outer, VectorListLayout list, EdgeValues edge_values)
      : name_(std::move(name)),
        size_(size),
        edges_(std::move(edges)),
        values_(std::move(values)),
        layout_(layout),
        outer_(outer),
        list_(list),
        edge_values_(std::move(edge_values)) {}

  const std::string& name() const { return name_; }
  std::size_t size() const { return size_; }
  // One edge of several. Throws std::out_of_range where its size or values are taken.
  SizeT operator[](std::size_t i) const { return SizeT(this, i); }
  // An element of a single vector, which is no edge of its own, has size 1: estimators of PopLibs ask for it.
  std::size_t getSizeAtIndex(std::size_t i) const {
    return edges_.size() == 1 && i > 0 && i < size_ ? 1 : edges_.at(i);
  }
  // The numbers in the state of the vertex, and of an edge that is connected to constants. For several edges
  // T is a std::vector. Throws std::out_of_range if the field has no such number.
  template <typename T>
  T getInitialValue(const Target& /*target*/, std::size_t i = 0) const {
    return static_cast<T>(edges_.empty() ? values_.at(i) : Values(0).at(i));
  }
  template <typename T>
  std::vector<T> getInitialValues(const Target& /*target*/) const {
    if constexpr (std::is_arithmetic_v<T>) {
      return Converted<T>(edges_.empty() ? values_ : Values(0));
    } else {
      std::vector<T> all;
      for (std::size_t e = 0; e < edges_.size(); ++e)
        all.push_back(Converted<typename T::value_type>(Values(e)));
      return all;
    }
  }
  // Level 0 is the outermost vector.
  layout::Vector getProfilerVectorLayout(unsigned nestingLevel) const {
    const VectorLayout found = nestingLevel == 0 && outer_ != VectorLayout::NOT_VECTOR ? outer_ : layout_;
    switch (found) {
      case VectorLayout::NOT_VECTOR:
        return layout::Vector::NotAVector;
      case VectorLayout::SPAN:
        return layout::Vector::Span;
      case VectorLayout::SHORT_SPAN:
        return layout::Vector::ShortSpan;
      case VectorLayout::SCALED_PTR32:
        return layout::Vector::ScaledPtr32;
      case VectorLayout::SCALED_PTR64:
        return layout::Vector::ScaledPtr64;
      case VectorLayout::SCALED_PTR128:
        return layout::Vector::ScaledPtr128;
      default:  // a compact pointer is a pointer in 32 bits
        return layout::Vector::OnePtr;
    }
  }
  layout::VectorList getProfilerVectorListLayout() const {
    switch (list_) {
      case VectorListLayout::NOT_VECTOR:
        return layout::VectorList::NotAVector;
      case VectorListLayout::DELTANELEMENTS:
        return layout::VectorList::DeltaNElements;
      case VectorListLayout::DELTAN:
        return layout::VectorList::DeltaN;
      case VectorListLayout::SCALED_PTR32:
        return layout::VectorList::ScaledPtr32;
      case VectorListLayout::SCALED_PTR64:
        return layout::VectorList::ScaledPtr64;
      case VectorListLayout::SCALED_PTR128:
        return layout::VectorList::ScaledPtr128;
      case VectorListLayout::COMPACT_DELTAN:
        return layout::VectorList::CompactDeltaN;
      default:
        return layout::VectorList::OnePtr;
    }
  }

 private:
  template <typename T>
  static std::vector<T> Converted(const std::vector<double>& values) {
    std::vector<T> converted;
    for (const double v : values) converted.push_back(static_cast<T>(v));
    return converted;
  }
  std::vector<double> Values(std::size_t edge) const {
    if (!edge_values_ || edge >= edges_.size()) throw std::out_of_range("FieldData: '" + name_ + "'");
    return edge_values_(edge);
  }

  std::string name_;
  std::size_t size_ = 0;
  std::vector<std::size_t> edges_;
  std::vector<double> values_;
  VectorLayout layout_ = VectorLayout::NOT_VECTOR, outer_ = VectorLayout::NOT_VECTOR;
  VectorListLayout list_ = VectorListLayout::NOT_VECTOR;
  EdgeValues edge_values_;
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
