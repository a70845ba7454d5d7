#include "operations/convolution/pointwise.h"

#include <cstddef>
#include <cstdint>

namespace ipu_model {
namespace {

std::int64_t Positions(const Shape& shape) { return NumElements(shape) / shape[1]; }

}  // namespace

bool IsPointwise(const ConvolutionProblem& p) {
  if (p.geometry.batch_groups > 1 || NumElements(p.lhs) == 0 || NumElements(p.out) == 0) return false;
  int dims = p.lhs[0] > 1 ? 1 : 0;
  for (std::size_t d = 0; d < p.spatial(); ++d) {
    const ConvolutionWindow& w = p.geometry.window[d];
    const bool same = p.rhs[d + 2] == 1 && w.stride == 1 && w.lhs_dilation == 1 && w.padding_low == 0 &&
                      p.out[d + 2] == p.lhs[d + 2];
    if (!same) return false;
    dims += p.lhs[d + 2] > 1 ? 1 : 0;
  }
  return p.spatial() > 1 || (p.spatial() == 1 && dims > 1);
}

ConvolutionProblem Flattened(const ConvolutionProblem& p) {
  ConvolutionProblem flat = p;
  flat.geometry = {};
  flat.geometry.spatial = 1;
  flat.geometry.feature_groups = p.geometry.feature_groups;
  flat.lhs = {1, p.lhs[1], Positions(p.lhs)};
  flat.rhs = {p.rhs[0], p.rhs[1], 1};
  flat.out = {1, p.out[1], Positions(p.out)};
  return flat;
}

Shape FlattenedLayout(const Shape& layout) {
  constexpr std::int64_t kBatch = 0, kChannels = 1, kFlatField = 2;
  Shape flat;
  std::int64_t last = kBatch;
  for (const std::int64_t d : layout) {
    if (d == kChannels) {
      flat.push_back(d);
    } else if (d == kBatch) {
      flat.push_back(kBatch);
      flat.push_back(kFlatField);
    } else {
      // The field follows the batch, in order.
      const bool next = flat.size() >= 2 && flat.back() == kFlatField && d == (last == kBatch ? 2 : last + 1);
      if (!next) return {};
      last = d;
    }
  }
  return flat;
}

Shape FlattenedWeightsLayout(const Shape& layout) {
  Shape flat;
  for (const std::int64_t d : layout) {
    if (d < 2) flat.push_back(d);
  }
  flat.push_back(2);
  return flat;
}

bool FlattenPositions(View* view) {
  std::int64_t stride = 0, extent = 1;  // of the dimensions that are joined so far
  for (std::size_t d = view->shape.size(); d-- > 0;) {
    if (d == 1 || view->shape[d] == 1) continue;
    if (extent > 1 && view->strides[d] != stride * extent) return false;
    if (extent == 1) stride = view->strides[d];
    extent *= view->shape[d];
  }
  view->shape = {1, view->shape[1], extent};
  view->strides = {stride * extent, view->strides[1], stride};
  return true;
}

void FlattenWeights(View* view) {
  view->shape.resize(2);
  view->strides.resize(2);
  view->shape.push_back(1);
  view->strides.push_back(1);
}

}  // namespace ipu_model
