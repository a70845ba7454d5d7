// Tile mappings for tensors that have no better one. Source: PopLibs, include/poputil/TileMapping.hpp.
#ifndef POPUTIL_TILEMAPPING_HPP
#define POPUTIL_TILEMAPPING_HPP

#include "poplar/Graph.hpp"
#include "poplar/Tensor.hpp"

namespace poputil {

// Spreads the elements in order over the tiles: whole data-path vectors, at least 128 bytes per tile.
void mapTensorLinearly(poplar::Graph& graph, const poplar::Tensor& tensor);
void mapTensorLinearly(poplar::Graph& graph, const poplar::Tensor& tensor, unsigned minElementsPerTile,
                       unsigned grainSize);
// Like mapTensorLinearly, but begins on tile `offset` (modulo the number of tiles); tile 0 follows the last
// tile. The model supports the ascending order only: throws poplar_error for the descending one.
void mapTensorLinearlyWithOffset(poplar::Graph& graph, const poplar::Tensor& tensor, unsigned offset = 0,
                                 bool ascendingOrder = true);
poplar::Graph::TileToTensorMapping calcLinearTileMapping(const poplar::Graph& graph,
                                                         const poplar::Tensor& tensor);

}  // namespace poputil

#endif  // POPUTIL_TILEMAPPING_HPP
