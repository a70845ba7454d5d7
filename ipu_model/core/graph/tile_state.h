// State that the hardware of every tile has beside its memory, as a variable of the graph from the first use
// on: rows of a tensor whose first dimension is the tile.
#ifndef IPU_MODEL_CORE_GRAPH_TILE_STATE_H_
#define IPU_MODEL_CORE_GRAPH_TILE_STATE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/graph/graph_impl.h"
#include "poplar/Graph.hpp"
#include "poplar/Tensor.hpp"

namespace ipu_model {

// The state of the tiles of `graph`, which may be virtual: a variable of this name, where each tile has
// elements of the shape `of_tile` that begin as initial(number of the element). Throws poplar::poplar_error
// if the name is a variable of the user's, of another shape.
poplar::Tensor TileState(const poplar::Graph& graph, const std::string& name,
                         const std::vector<std::size_t>& of_tile,
                         const std::function<unsigned(std::uint64_t)>& initial);

}  // namespace ipu_model

#endif  // IPU_MODEL_CORE_GRAPH_TILE_STATE_H_
