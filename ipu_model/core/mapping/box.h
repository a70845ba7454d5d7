// Half-open n-dimensional boxes and strided views: the geometry that operations, mappings and engines share.
#ifndef IPU_MODEL_CORE_MAPPING_BOX_H_
#define IPU_MODEL_CORE_MAPPING_BOX_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ipu_model/Types.hpp"

namespace ipu_model {

using Shape = std::vector<std::int64_t>;
using VariableId = std::uint32_t;

inline std::int64_t NumElements(const Shape& shape) {
  std::int64_t n = 1;
  for (std::int64_t d : shape) n *= d;
  return n;
}

struct Box {
  Shape begin, end;
  std::int64_t num_elements() const {
    std::int64_t n = 1;
    for (std::size_t d = 0; d < begin.size(); ++d) n *= end[d] > begin[d] ? end[d] - begin[d] : 0;
    return n;
  }
  Shape extents() const {
    Shape e(begin.size());
    for (std::size_t d = 0; d < e.size(); ++d) e[d] = end[d] - begin[d];
    return e;
  }
  static Box Whole(const Shape& shape) { return {Shape(shape.size(), 0), shape}; }
};

// A strided view of one variable. Element (i0, i1, ...) of the view is element offset + sum(i_d * strides[d])
// of the variable.
struct View {
  VariableId variable = 0;
  DType type = DType::kF32;
  std::int64_t offset = 0;
  Shape shape, strides;
  std::uint32_t graph = 0;  // number of the graph of a tensor's view, 0 where it is not known; not stored
  std::int64_t num_elements() const { return NumElements(shape); }
};

// Whether two views are the same elements in the same order; both are of one graph.
inline bool SameView(const View& a, const View& b) {
  bool same = a.variable == b.variable && a.type == b.type && a.offset == b.offset && a.shape == b.shape;
  for (std::size_t d = 0; same && d < a.shape.size(); ++d)
    same = a.shape[d] == 1 || a.strides[d] == b.strides[d];
  return same;
}

}  // namespace ipu_model

#endif  // IPU_MODEL_CORE_MAPPING_BOX_H_
