// A tensor's elements as stretches of its variables: the form in which regions are compared and sorted.
#ifndef IPU_MODEL_CORE_STRETCHES_H_
#define IPU_MODEL_CORE_STRETCHES_H_

#include <cstdint>
#include <vector>

#include "core/box.h"
#include "core/strides.h"
#include "poplar/Tensor.hpp"

namespace ipu_model {

// Elements [begin, begin + count) of the flattened tensor are elements element, element + step, ... of the
// variable.
struct Stretch {
  std::int64_t begin = 0;
  VariableId variable = 0;
  std::int64_t element = 0, count = 0, step = 1;
};

// Calls f(position, piece, element, length) for the rows of the flattened tensor, in order: elements
// [position, position + length) are those of the variable of `piece` from `element` on, piece.strides.back()
// apart. With `unit_steps`, rows whose elements do not follow each other have one element.
template <typename F>
void ForEachRow(const poplar::Tensor& tensor, bool unit_steps, F&& f) {
  std::int64_t position = 0;
  for (const View& piece : tensor.pieces()) {
    const View v = Coalesced(piece);
    const std::int64_t n = v.num_elements();
    if (n == 0) continue;
    const bool whole = !unit_steps || v.strides.back() == 1;
    const std::int64_t length = whole ? v.shape.back() : 1;
    const std::size_t rank = v.shape.size() - (whole ? 1 : 0);
    Shape index(rank, 0);
    std::int64_t element = v.offset;
    for (const std::int64_t end = position + n; position < end; position += length) {
      f(position, v, element, length);
      for (std::size_t d = rank; d-- > 0;) {
        element += v.strides[d];
        if (++index[d] < v.shape[d]) break;
        element -= v.strides[d] * v.shape[d];
        index[d] = 0;
      }
    }
  }
}

// In the order of the flattened tensor. Stretches that continue each other are one. With `unit_steps` all
// steps are 1, so that an element that is apart from the next one is a stretch by itself.
std::vector<Stretch> StretchesOf(const poplar::Tensor& tensor, bool unit_steps);
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

#endif  // IPU_MODEL_CORE_STRETCHES_H_
