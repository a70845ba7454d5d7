// A tensor's elements as stretches of its variables: the form in which regions are compared and sorted.
#ifndef IPU_MODEL_CORE_MAPPING_STRETCHES_H_
#define IPU_MODEL_CORE_MAPPING_STRETCHES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "core/mapping/box.h"
#include "core/mapping/pieces.h"
#include "core/mapping/strides.h"
#include "poplar/Tensor.hpp"

namespace ipu_model {

// Elements [begin, begin + count) of the flattened tensor are elements element, element + step, ... of the
// variable.
struct Stretch {
  std::int64_t begin = 0;
  VariableId variable = 0;
  std::int64_t element = 0, count = 0, step = 1;
};

// Calls f(position, variable, element, length, step) for the rows of the flattened tensor, in order: elements
// [position, position + length) are those of the variable from `element` on, `step` apart. With `unit_steps`,
// rows whose elements do not follow each other have one element.
template <typename F>
void ForEachRow(const poplar::Tensor& tensor, bool unit_steps, F&& f) {
  std::int64_t position = 0;
  struct Dim {
    std::int64_t extent, stride, index;
  };
  std::vector<Dim> dims;
  const auto rows = [&](VariableId variable, std::int64_t element, std::size_t rank,
                        const std::int64_t* extents, const std::int64_t* strides) {
    dims.clear();
    std::int64_t n = 1;
    for (std::size_t d = 0; d < rank; ++d) {
      n *= extents[d];
      if (extents[d] == 1) continue;
      if (!dims.empty() && dims.back().stride == strides[d] * extents[d]) {
        dims.back().extent *= extents[d];
        dims.back().stride = strides[d];
      } else {
        dims.push_back({extents[d], strides[d], 0});
      }
    }
    if (n == 0) return;
    std::int64_t length = 1, step = 1;
    if (!dims.empty() && (!unit_steps || dims.back().stride == 1)) {
      length = dims.back().extent;
      step = dims.back().stride;
      dims.pop_back();
    }
    for (const std::int64_t end = position + n; position < end; position += length) {
      f(position, variable, element, length, step);
      for (std::size_t d = dims.size(); d-- > 0;) {
        element += dims[d].stride;
        if (++dims[d].index < dims[d].extent) break;
        element -= dims[d].stride * dims[d].extent;
        dims[d].index = 0;
      }
    }
  };
  ForEachPiece(tensor.blocks(), rows);
}

// In the order of the flattened tensor. Stretches that continue each other are one. With `unit_steps` all
// steps are 1, so that an element that is apart from the next one is a stretch by itself.
std::vector<Stretch> StretchesOf(const poplar::Tensor& tensor, bool unit_steps);
// The same, remembered with the tensor if there are many and only some `elements` of it are looked at: then
// the next call, for the elements of another tile, finds them.
std::shared_ptr<const std::vector<Stretch>> SharedStretches(const poplar::Tensor& tensor,
                                                            std::size_t elements, bool unit_steps);
// How many elements regions have together.
std::size_t ElementsIn(poplar::ArrayRef<poplar::Interval> regions);
// Appends a stretch at the end; joins it with the last one if it continues that.
void AppendStretch(Stretch stretch, bool unit_steps, std::vector<Stretch>* out);
// A tensor of one dimension of these stretches, whose `begin` do not count, with the type and graph of
// `like`.
poplar::Tensor TensorOfStretches(const poplar::Tensor& like, const std::vector<Stretch>& stretches);
// The elements of the flattened tensor in another order: the given regions, one after another. `stretches`
// are those of the tensor.
std::vector<Stretch> SelectStretches(const std::vector<Stretch>& stretches,
                                     const std::vector<poplar::Interval>& regions);

}  // namespace ipu_model

#endif  // IPU_MODEL_CORE_MAPPING_STRETCHES_H_
