// A tile mapping in blocks of several dimensions, for tensors whose neighbouring elements are used together.
#ifndef IPU_MODEL_BLOCKS_HPP
#define IPU_MODEL_BLOCKS_HPP

#include <cstddef>
#include <vector>

#include "poplar/Graph.hpp"
#include "poplar/Tensor.hpp"

namespace ipu_model {

// Cuts dimension d of the tensor into parts[d] parts of about equal length, and puts one block on each tile,
// in row-major order. Rows are cut between vectors. Throws poplar::poplar_error unless there is one positive
// number for each dimension, and a tile for each block. Poplar's equivalent: Graph::setTileMapping of each
// block.
void MapInBlocks(poplar::Graph& graph, const poplar::Tensor& tensor, const std::vector<std::size_t>& parts);

}  // namespace ipu_model

#endif  // IPU_MODEL_BLOCKS_HPP
