// Boxes of an iteration space or a variable, cut into parts that lie on tiles.
#ifndef IPU_MODEL_CORE_MAPPING_GRID_H_
#define IPU_MODEL_CORE_MAPPING_GRID_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/mapping/box.h"

namespace ipu_model {

// The part of an operation's iteration space that one vertex computes.
struct Vertex {
  unsigned tile = 0;
  Box box;
};

// `shape`, cut into a grid of balanced blocks, and the tile of each block. Dimension d has
// G = ceil(shape[d] / grain[d]) grains; part p of its P = parts[d] parts takes the grains
// [p * G / P, (p + 1) * G / P). The block of parts (p0, p1, ...) is on tile
// (first_tile + sum(p_d * tile_stride[d])) % num_tiles.
struct Grid {
  Shape shape, parts, grain, tile_stride;
  unsigned first_tile = 0, num_tiles = 1;

  std::int64_t num_parts() const { return NumElements(parts); }
  std::int64_t Begin(int dim, std::int64_t part) const;
  std::int64_t PartOf(int dim, std::int64_t index) const;
  std::int64_t LargestPart(int dim) const;
  // The tile of the block with these part numbers, one for each dimension.
  unsigned TileOf(const std::int64_t* part) const {
    std::int64_t sum = first_tile;
    for (std::size_t d = 0; d < parts.size(); ++d) sum += part[d] * tile_stride[d];
    const std::int64_t tiles = num_tiles;
    return static_cast<unsigned>(((sum % tiles) + tiles) % tiles);
  }
  // Adds an innermost dimension.
  void Append(std::int64_t extent, std::int64_t parts_of_it, std::int64_t stride,
              std::int64_t grain_of_it = 1);
  // Returns one vertex for every non-empty part.
  std::vector<Vertex> Vertices() const;

  // A 1-D balanced split by the rule of poputil::mapTensorLinearly (PopLibs lib/poputil/TileMapping.cpp),
  // with its grain and minimum number of elements per tile.
  static Grid Linear(std::int64_t elements, std::int64_t min_per_tile, std::int64_t grain, unsigned num_tiles,
                     unsigned first_tile = 0);
  // parts[d] parts per dimension; tiles are numbered from first_tile in row-major order of the parts.
  static Grid Of(Shape shape, Shape parts, unsigned num_tiles, unsigned first_tile = 0);

  // Whether the descriptions are equal; different descriptions can mean the same placement.
  friend bool operator==(const Grid& a, const Grid& b) {
    return a.shape == b.shape && a.parts == b.parts && a.grain == b.grain && a.tile_stride == b.tile_stride &&
           a.first_tile == b.first_tile && a.num_tiles == b.num_tiles;
  }
};

}  // namespace ipu_model

#endif  // IPU_MODEL_CORE_MAPPING_GRID_H_
