// Tile mappings for indexing with run-time values.
#include "operations/index/slice_grid.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "core/mapping/strides.h"
#include "kernels/host/integer_division.h"

namespace ipu_model {
namespace {

// Balances the blocks of a grid: finds how many parts each of some dimensions is cut into, so that the
// largest block is smallest.
class Balance {
 public:
  // `dims`: the numbers of the dimensions that are cut, at least one.
  Balance(const Grid& grid, std::vector<std::size_t> dims) : grid_(grid), dims_(std::move(dims)) {}

  // The parts of each dimension, for at most `tiles` blocks; empty if no block has fewer than `least`
  // elements.
  Shape Find(std::int64_t tiles, std::int64_t least) {
    tiles_ = tiles;
    least_ = least;
    parts_.assign(dims_.size(), 1);
    Cut(0, tiles, 1);
    return found_;
  }

 private:
  void Cut(std::size_t at, std::int64_t tiles, std::int64_t elements) {
    if (elements >= least_) return;
    const std::int64_t extent = grid_.shape[dims_[at]], grain = grid_.grain[dims_[at]];
    const std::int64_t grains = std::max<std::int64_t>(1, CeilDivide(extent, grain));
    std::int64_t parts = std::min(grains, tiles);
    while (parts >= 1) {
      // The fewest parts that are no longer: other dimensions are cut into more.
      const std::int64_t longest = CeilDivide(grains, parts);
      parts = CeilDivide(grains, longest);
      parts_[at] = parts;
      const std::int64_t block = elements * std::max<std::int64_t>(1, std::min(extent, longest * grain));
      if (at + 1 < dims_.size()) {
        Cut(at + 1, tiles / parts, block);
      } else {
        if (block < least_) {
          least_ = block;
          Take();
        }
        return;
      }
      --parts;
    }
  }

  // Uses the tiles that are left, outermost dimension first.
  void Take() {
    found_ = parts_;
    std::int64_t blocks = 1;
    for (const std::int64_t parts : found_) blocks *= parts;
    for (std::size_t at = 0; at < dims_.size(); ++at) {
      const std::int64_t others = blocks / found_[at];
      const std::int64_t grains = CeilDivide(grid_.shape[dims_[at]], grid_.grain[dims_[at]]);
      found_[at] = std::clamp<std::int64_t>(grains, 1, tiles_ / others);
      blocks = others * found_[at];
    }
  }

  const Grid& grid_;
  const std::vector<std::size_t> dims_;
  std::int64_t tiles_ = 1, least_ = 0;
  Shape parts_, found_;
};

// Rows that are cut take longer than whole ones, so blocks must be smaller by more than this part.
constexpr std::int64_t kWorthCutting = 16;

}  // namespace

std::int64_t SliceBudget(std::int64_t bytes_per_tile) { return bytes_per_tile / 4; }

std::int64_t StepBudget(std::int64_t bytes_per_tile) { return bytes_per_tile / 16; }

Grid SliceGrid(const Shape& shape, const std::vector<bool>& sliced, DType type, unsigned num_tiles,
               std::int64_t max_bytes) {
  const std::size_t rank = shape.size();
  const std::int64_t size = static_cast<std::int64_t>(SizeOf(type));
  Grid grid;
  grid.shape = shape;
  grid.parts.assign(rank, 1);
  grid.grain.assign(rank, 1);
  grid.num_tiles = num_tiles;
  if (rank > 0) grid.grain[rank - 1] = std::max<std::int64_t>(1, 8 / size);
  std::int64_t tiles = num_tiles, block = 1;
  std::vector<std::size_t> spread;
  for (std::size_t d = 0; d < rank; ++d) {
    if (sliced[d]) continue;
    const std::int64_t grains = CeilDivide(shape[d], grid.grain[d]);
    grid.parts[d] = std::clamp<std::int64_t>(grains, 1, tiles);
    tiles /= grid.parts[d];
    block *= std::max<std::int64_t>(1, grid.LargestPart(static_cast<int>(d)));
    if (grains > 1) spread.push_back(d);
  }
  if (spread.size() > 1 && block > grid.grain[rank - 1]) {
    const Shape parts = Balance(grid, spread).Find(num_tiles, block - block / kWorthCutting);
    for (std::size_t i = 0; i < parts.size(); ++i) grid.parts[spread[i]] = parts[i];
    tiles = num_tiles / NumElements(grid.parts);
  }
  std::int64_t bytes = size;
  for (std::size_t d = 0; d < rank; ++d) {
    bytes *= std::max<std::int64_t>(1, grid.LargestPart(static_cast<int>(d)));
  }
  std::size_t longest = rank;
  for (std::size_t d = 0; d < rank; ++d) {
    if (sliced[d] && (longest == rank || shape[d] > shape[longest])) longest = d;
  }
  if (bytes > max_bytes && longest < rank && tiles > 1) {
    const std::int64_t grains = CeilDivide(shape[longest], grid.grain[longest]);
    grid.parts[longest] = std::clamp<std::int64_t>(CeilDivide(bytes, max_bytes), 1, std::min(tiles, grains));
  }
  grid.tile_stride = RowMajorStrides(grid.parts);
  return grid;
}

Grid SpreadGrid(const Shape& shape, DType type, unsigned num_tiles) {
  return SliceGrid(shape, std::vector<bool>(shape.size(), false), type, num_tiles, 0);
}

}  // namespace ipu_model
