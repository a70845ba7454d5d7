#include "operations/convolution/convolution_regions.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "kernels/host/integer_division.h"

namespace ipu_model {

std::size_t KernelDim(const ConvolutionProblem& p, std::size_t d) { return kPositionDims + p.spatial() + d; }

std::int64_t FirstGroup(const ConvolutionProblem& p, const Box& box) {
  return box.begin[kFeatureDim] / p.features_per_group();
}
std::int64_t EndGroup(const ConvolutionProblem& p, const Box& box) {
  return (box.end[kFeatureDim] - 1) / p.features_per_group() + 1;
}

std::pair<std::int64_t, std::int64_t> InputRange(const ConvolutionProblem& p, const Box& box, std::size_t d) {
  const ConvolutionWindow& w = p.geometry.window[d];
  const std::size_t q = kPositionDims + d, k = KernelDim(p, d);
  const std::int64_t low = box.begin[q] * w.stride + box.begin[k] * w.rhs_dilation - w.padding_low;
  const std::int64_t high = (box.end[q] - 1) * w.stride + (box.end[k] - 1) * w.rhs_dilation - w.padding_low;
  const std::int64_t size = p.lhs[d + 2];
  const std::int64_t begin = std::clamp<std::int64_t>(CeilDivide(low, w.lhs_dilation), 0, size);
  const std::int64_t end = std::clamp<std::int64_t>(FloorDivide(high, w.lhs_dilation) + 1, begin, size);
  return {begin, end};
}

Box LhsRegion(const ConvolutionProblem& p, const Box& box) {
  Box region = Box::Whole(p.lhs);
  const std::int64_t first = FirstGroup(p, box), end = EndGroup(p, box);
  const std::int64_t batch = p.out[0], channels = p.rhs[1];
  if (p.geometry.batch_groups > 1) {
    region.begin[0] = first * batch;
    region.end[0] = end * batch;
  } else {
    region.begin[0] = box.begin[kBatchDim];
    region.end[0] = box.end[kBatchDim];
  }
  if (p.geometry.feature_groups > 1) {
    region.begin[1] = first * channels;
    region.end[1] = end * channels;
  } else {
    region.begin[1] = box.begin[kChannelDim];
    region.end[1] = std::min(box.end[kChannelDim], p.lhs[1]);
  }
  for (std::size_t d = 0; d < p.spatial(); ++d) {
    std::tie(region.begin[d + 2], region.end[d + 2]) = InputRange(p, box, d);
  }
  return region;
}

Box RhsRegion(const ConvolutionProblem& p, const Box& box) {
  // A contraction over no elements has one part, which reads nothing and writes zeros.
  Box region = Box::Whole(p.rhs);
  region.begin[0] = box.begin[kFeatureDim];
  region.end[0] = box.end[kFeatureDim];
  region.begin[1] = box.begin[kChannelDim];
  region.end[1] = std::min(box.end[kChannelDim], p.rhs[1]);
  for (std::size_t d = 0; d < p.spatial(); ++d) {
    const std::size_t k = KernelDim(p, d);
    const bool reversed = p.geometry.window[d].reversed;
    const std::int64_t end = std::min(box.end[k], p.rhs[d + 2]);
    region.begin[d + 2] = reversed ? p.rhs[d + 2] - end : box.begin[k];
    region.end[d + 2] = reversed ? p.rhs[d + 2] - box.begin[k] : end;
  }
  return region;
}

Box OutRegion(const ConvolutionProblem& p, const Box& box) {
  Box region = Box::Whole(p.out);
  region.begin[0] = box.begin[kBatchDim];
  region.end[0] = box.end[kBatchDim];
  region.begin[1] = box.begin[kFeatureDim];
  region.end[1] = box.end[kFeatureDim];
  for (std::size_t d = 0; d < p.spatial(); ++d) {
    region.begin[d + 2] = box.begin[kPositionDims + d];
    region.end[d + 2] = box.end[kPositionDims + d];
  }
  return region;
}

std::vector<std::size_t> ContractedDims(const ConvolutionProblem& p) {
  std::vector<std::size_t> dims = {kChannelDim};
  for (std::size_t d = 0; d < p.spatial(); ++d) dims.push_back(KernelDim(p, d));
  return dims;
}

Grid PartialsPlacement(const ConvolutionProblem& p, const Grid& split) {
  Grid placement;
  placement.first_tile = split.first_tile;
  placement.num_tiles = split.num_tiles;
  const auto add = [&](std::int64_t size, std::int64_t grain, std::size_t d) {
    placement.shape.push_back(size);
    placement.parts.push_back(split.parts[d]);
    placement.grain.push_back(grain);
    placement.tile_stride.push_back(split.tile_stride[d]);
  };
  for (std::size_t d : ContractedDims(p)) add(split.parts[d], 1, d);
  add(p.out[0], split.grain[kBatchDim], kBatchDim);
  add(p.out[1], split.grain[kFeatureDim], kFeatureDim);
  for (std::size_t d = 0; d < p.spatial(); ++d) {
    add(p.out[d + 2], split.grain[kPositionDims + d], kPositionDims + d);
  }
  return placement;
}

Box PartialsRegion(const ConvolutionProblem& p, const Grid& split, const Box& box) {
  Box region;
  for (std::size_t d : ContractedDims(p)) {
    const std::int64_t part = split.PartOf(static_cast<int>(d), box.begin[d]);
    region.begin.push_back(part);
    region.end.push_back(part + 1);
  }
  const Box out = OutRegion(p, box);
  region.begin.insert(region.begin.end(), out.begin.begin(), out.begin.end());
  region.end.insert(region.end.end(), out.end.begin(), out.end.end());
  return region;
}

Box BoxOfStep(Box box, const SerialSplit& serial, std::int64_t step) {
  const auto cut = [&box](const SerialCut& cut, std::int64_t step) {
    const auto d = static_cast<std::size_t>(cut.dim);
    std::tie(box.begin[d], box.end[d]) = cut.Range(box.begin[d], box.end[d], step);
  };
  cut(serial.outputs, serial.OutputStep(step));
  cut(serial.sums, serial.SumStep(step));
  return box;
}

}  // namespace ipu_model
