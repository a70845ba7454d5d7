// Tile mappings for tensors without a better one.
#ifndef POPUTIL_TILEMAPPING_HPP
#define POPUTIL_TILEMAPPING_HPP

#include "poplar/Graph.hpp"
#include "poplar/Tensor.hpp"

namespace poputil {

// Spreads the elements in order over the tiles: whole data-path vectors, at least 128 bytes per tile.
void mapTensorLinearly(poplar::Graph& graph, const poplar::Tensor& tensor);
void mapTensorLinearly(poplar::Graph& graph, const poplar::Tensor& tensor, unsigned minElementsPerTile,
                       unsigned grainSize);
poplar::Graph::TileToTensorMapping calcLinearTileMapping(const poplar::Graph& graph,
                                                         const poplar::Tensor& tensor);

}  // namespace poputil

#endif  // POPUTIL_TILEMAPPING_HPP
