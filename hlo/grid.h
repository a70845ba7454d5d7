// The blocks of a Grid as parts of tensors.
#ifndef HLO_GRID_H_
#define HLO_GRID_H_

#include <cstddef>
#include <string>
#include <vector>

#include "hlo/Expansion.hpp"
#include "parts.h"

namespace hlo {

struct Block {
  Part part;
  std::vector<std::size_t> index;  // by dimension
};

// The first element of block `index` along the dimension.
std::size_t beginOf(const Grid& grid, std::size_t dimension, std::size_t index);
// All blocks that are not empty, in row-major order.
std::vector<Block> blocksOf(const Grid& grid, unsigned tiles);
// The part with the extents of block `index` along the dimension.
Part withBlock(const Grid& grid, Part part, std::size_t dimension, std::size_t index);
// A new variable of which every block is on its tile.
poplar::Tensor variableOn(poplar::Graph& graph, const Grid& grid, const poplar::Type& type,
                          const poplar::DebugContext& debugContext);

}  // namespace hlo

#endif  // HLO_GRID_H_
