// Where the tile mappings start that operations choose for results, buffers and what they will read.
#ifndef IPU_MODEL_FIRST_TILE_HPP
#define IPU_MODEL_FIRST_TILE_HPP

#include "poplar/Graph.hpp"

namespace ipu_model {

// From now on, linear mappings that operations choose by themselves start at `tile`, and so do those of
// createMatMulInputLHS, createSliceableTensor and their like, and products that use no operand in place;
// tile 0 follows the last one. Those of poputil start where they are told to. PopLibs finds such tiles by a
// hash of shapes (lib/popops/reduction/Reduction.cpp, getStartTile).
void StartLinearMappingsAt(poplar::Graph& graph, unsigned tile);

}  // namespace ipu_model

#endif  // IPU_MODEL_FIRST_TILE_HPP
