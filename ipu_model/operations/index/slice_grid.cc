// Tile mappings for indexing with run-time values.
#include "operations/index/slice_grid.h"

#include <algorithm>

#include "core/strides.h"
#include "kernels/host/integer_division.h"

namespace ipu_model {

std::int64_t SliceBudget(std::int64_t bytes_per_tile) { return bytes_per_tile / 4; }

std::int64_t StepBudget(std::int64_t bytes_per_tile) { return bytes_per_tile / 16; }

Shape TileStrides(const Shape& parts) { return RowMajorStrides(parts); }

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
  std::int64_t tiles = num_tiles, bytes = size;
  for (std::size_t d = 0; d < rank; ++d) {
    if (!sliced[d]) {
      const std::int64_t grains = CeilDivide(shape[d], grid.grain[d]);
      grid.parts[d] = std::clamp<std::int64_t>(grains, 1, tiles);
      tiles /= grid.parts[d];
    }
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
  grid.tile_stride = TileStrides(grid.parts);
  return grid;
}

Grid SpreadGrid(const Shape& shape, DType type, unsigned num_tiles) {
  return SliceGrid(shape, std::vector<bool>(shape.size(), false), type, num_tiles, 0);
}

}  // namespace ipu_model
