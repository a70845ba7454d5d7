#include "core/mapping/stretches.h"

#include <algorithm>

#include "core/mapping/tiling.h"

namespace ipu_model {

void AppendStretch(Stretch stretch, bool unit_steps, std::vector<Stretch>* out) {
  if (stretch.count == 0) return;
  if (stretch.count == 1) stretch.step = 1;
  if (!out->empty()) {
    Stretch& last = out->back();
    stretch.begin = last.begin + last.count;
    if (last.variable == stretch.variable) {
      // A stretch of one element takes any step.
      const std::int64_t step = stretch.element - last.element - (last.count - 1) * last.step;
      const bool fits = (last.count == 1 || last.step == step) &&
                        (stretch.count == 1 || stretch.step == step) && (!unit_steps || step == 1);
      if (fits && (step == 1 || last.count > 1 || stretch.count > 1)) {
        last.step = step;
        last.count += stretch.count;
        return;
      }
    }
  } else {
    stretch.begin = 0;
  }
  out->push_back(stretch);
}

std::vector<Stretch> StretchesOf(const poplar::Tensor& tensor, bool unit_steps) {
  std::vector<Stretch> result;
  ForEachRow(
      tensor, unit_steps,
      [&](std::int64_t, VariableId variable, std::int64_t element, std::int64_t length, std::int64_t step) {
        AppendStretch({0, variable, element, length, length == 1 ? 1 : step}, unit_steps, &result);
      });
  return result;
}

std::shared_ptr<const std::vector<Stretch>> SharedStretches(const poplar::Tensor& tensor,
                                                            std::size_t elements, bool unit_steps) {
  const StretchCache& cache = tensor.tiling().cache;
  if (auto known = cache.Get(unit_steps)) return known;
  auto made = std::make_shared<const std::vector<Stretch>>(StretchesOf(tensor, unit_steps));
  constexpr std::size_t kMany = 64;
  if (made->size() > kMany && elements < tensor.numElements() / 2) cache.Set(unit_steps, made);
  return made;
}

std::size_t ElementsIn(poplar::ArrayRef<poplar::Interval> regions) {
  std::size_t elements = 0;
  for (const poplar::Interval& i : regions) elements += i.size();
  return elements;
}

poplar::Tensor TensorOfStretches(const poplar::Tensor& like, const std::vector<Stretch>& stretches) {
  std::vector<View> pieces;
  std::int64_t elements = 0;
  for (const Stretch& s : stretches) {
    View view;
    view.variable = s.variable;
    view.type = like.elementType().id();
    view.offset = s.element;
    view.shape = {s.count};
    view.strides = {s.step};
    pieces.push_back(std::move(view));
    elements += s.count;
  }
  if (pieces.empty()) return like.flatten().slice(0, 0);
  return poplar::Tensor::fromPieces(like.elementType(), {static_cast<std::size_t>(elements)},
                                    std::move(pieces), like.graph())
      .withType(like.elementType(), like.getMetadata());
}

std::vector<Stretch> SelectStretches(const std::vector<Stretch>& stretches,
                                     const std::vector<poplar::Interval>& regions) {
  std::vector<Stretch> result;
  for (const poplar::Interval& region : regions) {
    auto begin = static_cast<std::int64_t>(region.begin());
    const auto end = static_cast<std::int64_t>(region.end());
    if (begin >= end) continue;
    auto at = std::upper_bound(stretches.begin(), stretches.end(), begin,
                               [](std::int64_t b, const Stretch& s) { return b < s.begin; });
    for (--at; begin < end; ++at) {
      const std::int64_t count = std::min(end, at->begin + at->count) - begin;
      AppendStretch({0, at->variable, at->element + (begin - at->begin) * at->step, count, at->step}, false,
                    &result);
      begin += count;
    }
  }
  return result;
}

}  // namespace ipu_model
