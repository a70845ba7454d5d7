// Where the linear mappings start that operations choose for results and buffers.
#ifndef IPU_MODEL_FIRST_TILE_HPP
#define IPU_MODEL_FIRST_TILE_HPP

#include "poplar/Graph.hpp"

namespace ipu_model {

// From now on, linear mappings that operations choose by themselves start at `tile`; tile 0 follows the last
// one. Those of poputil start where they are told to. PopLibs finds such tiles by a hash of shapes
// (lib/popops/reduction/Reduction.cpp, getStartTile).
void StartLinearMappingsAt(poplar::Graph& graph, unsigned tile);

}  // namespace ipu_model

#endif  // IPU_MODEL_FIRST_TILE_HPP
