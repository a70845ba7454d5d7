#include "grid.h"

#include <algorithm>

namespace hlo {

std::size_t beginOf(const Grid& grid, std::size_t d, std::size_t index) {
  const std::size_t grains = (grid.shape[d] + grid.grain[d] - 1) / grid.grain[d];
  return std::min(grid.shape[d], index * grains / grid.parts[d] * grid.grain[d]);
}

std::vector<Block> blocksOf(const Grid& grid, unsigned tiles) {
  const std::size_t rank = grid.shape.size();
  std::vector<Block> blocks;
  std::vector<std::size_t> index(rank, 0);
  for (std::size_t number = 0;; ++number) {
    Block block{{static_cast<unsigned>(number % tiles), {}, {}}, index};
    for (std::size_t d = 0; d < rank; ++d) {
      block.part.begin.push_back(beginOf(grid, d, index[d]));
      block.part.end.push_back(beginOf(grid, d, index[d] + 1));
    }
    if (block.part.elements() > 0) blocks.push_back(std::move(block));
    std::size_t d = rank;
    while (d > 0 && ++index[d - 1] == grid.parts[d - 1]) index[--d] = 0;
    if (d == 0) return blocks;
  }
}

Part withBlock(const Grid& grid, Part part, std::size_t d, std::size_t index) {
  part.begin[d] = beginOf(grid, d, index);
  part.end[d] = beginOf(grid, d, index + 1);
  return part;
}

poplar::Tensor variableOn(poplar::Graph& graph, const Grid& grid, const poplar::Type& type,
                          const poplar::DebugContext& debugContext) {
  const poplar::Tensor variable = graph.addVariable(type, grid.shape, debugContext);
  const unsigned tiles = graph.getTarget().getNumTiles();
  poplar::Graph::TileToTensorMapping mapping(tiles);
  const std::size_t rank = grid.shape.size();
  if (rank == 0) {
    graph.setTileMapping(variable, 0);
    return variable;
  }
  for (const Block& block : blocksOf(grid, tiles)) {
    const Part& part = block.part;
    const std::size_t length = part.end[rank - 1] - part.begin[rank - 1];
    std::vector<std::size_t> at = part.begin;
    while (true) {
      std::size_t element = 0;
      for (std::size_t d = 0; d < rank; ++d) element = element * grid.shape[d] + at[d];
      mapping[part.tile].emplace_back(element, element + length);
      std::size_t d = rank - 1;
      while (d > 0 && ++at[d - 1] == part.end[d - 1]) {
        at[d - 1] = part.begin[d - 1];
        --d;
      }
      if (d == 0) break;
    }
  }
  graph.setTileMapping(variable, mapping);
  return variable;
}

}  // namespace hlo
