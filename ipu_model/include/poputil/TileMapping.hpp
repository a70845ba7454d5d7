// Tile mappings for tensors without a better one. Source: PopLibs, include/poputil/TileMapping.hpp.
#ifndef POPUTIL_TILEMAPPING_HPP
#define POPUTIL_TILEMAPPING_HPP

#include "poplar/Graph.hpp"
#include "poplar/Tensor.hpp"

namespace poputil {

// Spreads the elements in order over the tiles: whole data-path vectors, at least 128 bytes per tile.
void mapTensorLinearly(poplar::Graph& graph, const poplar::Tensor& tensor);
void mapTensorLinearly(poplar::Graph& graph, const poplar::Tensor& tensor, unsigned minElementsPerTile,
                       unsigned grainSize);
// mapTensorLinearly, beginning on tile `offset` (modulo the number of tiles) in place of tile 0; behind the
// last tile comes tile 0. The model has the ascending order only: throws poplar_error without it.
void mapTensorLinearlyWithOffset(poplar::Graph& graph, const poplar::Tensor& tensor, unsigned offset = 0,
                                 bool ascendingOrder = true);
poplar::Graph::TileToTensorMapping calcLinearTileMapping(const poplar::Graph& graph,
                                                         const poplar::Tensor& tensor);

}  // namespace poputil

#endif  // POPUTIL_TILEMAPPING_HPP
