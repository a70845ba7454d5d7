// Mappings of a convolution's operands and result that fit its split.
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/mapping/strides.h"
#include "core/target/target_model.h"
#include "kernels/host/integer_division.h"
#include "operations/convolution/convolution_plan.h"
#include "operations/convolution/convolution_regions.h"
#include "operations/convolution/convolution_serial.h"

namespace ipu_model {
namespace {

std::int64_t LargestPart(const Grid& placement) {
  std::int64_t elements = 1;
  for (std::size_t d = 0; d < placement.shape.size(); ++d)
    elements *= placement.LargestPart(static_cast<int>(d));
  return elements;
}

// Maps memory dimensions in the order `layout` to the parts of iteration dimensions `space_dim` (-1: not
// split).
Grid Placement(const Grid& split, const Shape& shape, const std::vector<int>& space_dim,
               const Shape& layout) {
  Grid placement;
  placement.first_tile = split.first_tile;
  placement.num_tiles = split.num_tiles;
  for (std::int64_t dim : layout) {
    const std::size_t d = static_cast<std::size_t>(dim);
    const int from = space_dim[d];
    placement.shape.push_back(shape[d]);
    placement.parts.push_back(from < 0 ? 1 : split.parts[static_cast<std::size_t>(from)]);
    placement.grain.push_back(from < 0 ? 1 : split.grain[static_cast<std::size_t>(from)]);
    placement.tile_stride.push_back(from < 0 ? 0 : split.tile_stride[static_cast<std::size_t>(from)]);
  }
  return placement;
}

// Returns one box per tile, in whole vectors: dimensions are split from major to minor in memory order, so
// that what a step computes of the last one lies on all tiles. If that leaves many tiles without elements,
// the boxes are those whose largest has the fewest elements.
Grid SpreadEvenly(const Shape& shape, const Shape& layout, std::int64_t vector_width, unsigned num_tiles) {
  Shape memory;
  for (std::int64_t d : layout) memory.push_back(shape[static_cast<std::size_t>(d)]);
  Grid placement = Grid::Of(memory, Shape(memory.size(), 1), num_tiles);
  if (!memory.empty()) placement.grain.back() = vector_width;
  std::int64_t left = num_tiles;
  for (std::size_t d = 0; d < memory.size(); ++d) {
    placement.parts[d] = std::min(left, CeilDivide(memory[d], placement.grain[d]));
    left /= placement.parts[d];
  }
  // A quarter more on a tile is less than what uneven steps take.
  std::int64_t best = LargestPart(placement) * 4 / 5;
  Shape parts(memory.size(), 1);
  const auto search = [&](const auto& self, std::size_t d, std::int64_t tiles,
                          std::int64_t elements) -> void {
    if (d == memory.size()) {
      if (elements >= best) return;
      best = elements;
      placement.parts = parts;
      return;
    }
    const std::int64_t grain = placement.grain[d], grains = CeilDivide(memory[d], grain);
    for (std::int64_t most = std::min(tiles, grains); most > 0;) {
      const std::int64_t largest = CeilDivide(grains, most);
      parts[d] = CeilDivide(grains, largest);  // no more parts than that size takes
      self(self, d + 1, tiles / parts[d], elements * std::min(memory[d], largest * grain));
      most = parts[d] - 1;
    }
  };
  search(search, 0, num_tiles, 1);
  placement.tile_stride = RowMajorStrides(placement.parts);
  return placement;
}

// Splits a dimension over the parts of `space_dim`, which would otherwise hold copies: one that is not yet
// split, or else one whose parts lie so far apart that the tiles between them are those of the copies.
void SpreadOver(const Grid& split, std::size_t space_dim, std::int64_t vector_width, Grid* placement) {
  const std::int64_t copies = split.parts[space_dim], stride = split.tile_stride[space_dim];
  if (copies <= 1) return;
  const std::size_t rank = placement->shape.size();
  std::size_t best = rank;
  for (std::size_t d = rank; d-- > 0;) {
    if (placement->parts[d] != 1 || placement->shape[d] <= 1) continue;
    if (best == rank || placement->shape[d] > placement->shape[best]) best = d;
  }
  if (best < rank) {
    placement->grain[best] = best + 1 == rank ? vector_width : 1;
    const std::int64_t grains = CeilDivide(placement->shape[best], placement->grain[best]);
    placement->parts[best] = std::min(copies, grains);
    placement->tile_stride[best] = stride;
    return;
  }
  for (std::size_t d = 0; d < rank; ++d) {
    const std::int64_t grains = CeilDivide(placement->shape[d], placement->grain[d]);
    if (placement->tile_stride[d] != copies * stride || grains < placement->parts[d] * copies) continue;
    placement->parts[d] *= copies;
    placement->tile_stride[d] = stride;
    return;
  }
}

// An operand that several tiles use is exchanged in any case. If `placement` would put it on few tiles, where
// it would take much memory and elementwise operations on it much time, it is spread evenly.
Mapping SharedOperand(Grid placement, std::int64_t users, Grid even) {
  if (users > 1 && LargestPart(placement) > LargestPart(even)) return Mapping(std::move(even));
  return Mapping(std::move(placement));
}

}  // namespace

Mapping ConvolutionInputMapping(const ConvolutionProblem& p, const Grid& split, const Shape& layout,
                                const TargetModel& target) {
  if (NumElements(p.lhs) == 0) return {};
  std::vector<int> dims(p.lhs.size(), -1);
  if (p.geometry.batch_groups == 1) dims[0] = kBatchDim;
  if (p.geometry.feature_groups == 1) dims[1] = kChannelDim;
  for (std::size_t d = 0; d < p.spatial(); ++d) dims[d + 2] = static_cast<int>(kPositionDims + d);
  Grid placement = Placement(split, p.lhs, dims, layout);
  const std::int64_t width = target.VectorWidth(p.in_type);
  std::int64_t users = split.parts[kFeatureDim];
  for (std::size_t d = 0; d < p.spatial(); ++d) users *= split.parts[KernelDim(p, d)];
  SpreadOver(split, kFeatureDim, width, &placement);
  return SharedOperand(std::move(placement), users, SpreadEvenly(p.lhs, layout, width, split.num_tiles));
}

Mapping ConvolutionWeightsMapping(const ConvolutionProblem& p, const Grid& split, const Shape& layout,
                                  const TargetModel& target) {
  if (NumElements(p.rhs) == 0) return {};
  std::vector<int> dims(p.rhs.size(), -1);
  dims[0] = kFeatureDim;
  dims[1] = kChannelDim;
  for (std::size_t d = 0; d < p.spatial(); ++d) dims[d + 2] = static_cast<int>(KernelDim(p, d));
  Grid placement = Placement(split, p.rhs, dims, layout);
  const std::int64_t width = target.VectorWidth(p.rhs_type);
  std::int64_t users = split.parts[kBatchDim];
  for (std::size_t d = 0; d < p.spatial(); ++d) {
    users *= split.parts[kPositionDims + d];
    SpreadOver(split, kPositionDims + d, width, &placement);
  }
  SpreadOver(split, kBatchDim, width, &placement);
  return SharedOperand(std::move(placement), users, SpreadEvenly(p.rhs, layout, width, split.num_tiles));
}

Mapping ConvolutionOutputMapping(const ConvolutionProblem& p, const Grid& split, const Shape& layout,
                                 const TargetModel& target, unsigned num_tiles) {
  if (NumElements(p.out) == 0) return {};
  std::vector<int> dims(p.out.size());
  dims[0] = kBatchDim;
  dims[1] = kFeatureDim;
  for (std::size_t d = 0; d < p.spatial(); ++d) dims[d + 2] = static_cast<int>(kPositionDims + d);
  Grid placement = Placement(split, p.out, dims, layout);
  // The tiles that have partial sums of a block share it.
  const std::int64_t width = target.VectorWidth(p.out_type);
  std::int64_t contracted_parts = 1;
  for (const std::size_t d : ContractedDims(p)) {
    contracted_parts *= split.parts[d];
    SpreadOver(split, d, width, &placement);
  }
  return SharedOperand(std::move(placement), contracted_parts, SpreadEvenly(p.out, layout, width, num_tiles));
}

}  // namespace ipu_model
