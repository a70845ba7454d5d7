// Tiles for input and output only. No operation computes there, so that a transfer between them and the host
// or the streaming memory goes on while the other tiles compute, until a program uses them again. The report
// has the cycles that are saved: Report::overlapped_link_cycles. PopART and PopTorch call their number
// numIOTiles.
#ifndef IPU_MODEL_IO_TILES_HPP
#define IPU_MODEL_IO_TILES_HPP

#include "poplar/Graph.hpp"
#include "poplar/Target.hpp"
#include "poplar/Tensor.hpp"

namespace ipu_model {

// A graph for all tiles of each replica but the last `io_tiles`. Throws poplar::poplar_error if none is left.
// Poplar's equivalent: Graph::createVirtualGraph.
poplar::Graph GraphWithIoTiles(const poplar::Target& target, poplar::replication_factor replicas,
                               unsigned io_tiles);
// Spreads the tensor over the `io_tiles` tiles of such a graph. Poplar's equivalent:
// poputil::mapTensorLinearly over the virtual graph of these tiles.
void MapToIoTiles(poplar::Graph& graph, const poplar::Tensor& tensor, unsigned io_tiles);

}  // namespace ipu_model

#endif  // IPU_MODEL_IO_TILES_HPP
