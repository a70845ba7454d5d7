#include "core/graph/tile_state.h"

#include <algorithm>

#include "poplar/exceptions.hpp"

namespace ipu_model {

poplar::Tensor TileState(const poplar::Graph& graph, const std::string& name,
                         const std::vector<std::size_t>& of_tile,
                         const std::function<unsigned(std::uint64_t)>& initial) {
  GraphImpl& impl = graph.impl();
  poplar::Graph top = graph.getTopLevelGraph();
  const std::size_t num_tiles = top.getTarget().getNumTiles();
  std::vector<std::size_t> shape(1 + of_tile.size(), num_tiles);
  std::copy(of_tile.begin(), of_tile.end(), shape.begin() + 1);
  const auto found = std::find_if(impl.variables.begin(), impl.variables.end(),
                                  [&](const Variable& v) { return v.name == name; });
  const auto id = static_cast<VariableId>(found - impl.variables.begin());
  if (found == impl.variables.end()) {
    const poplar::Tensor state = top.addVariable(poplar::UNSIGNED_INT, shape, name);
    const std::size_t each = state.numElements() / num_tiles;
    poplar::Graph::TileToTensorMapping mapping(num_tiles);
    for (std::size_t t = 0; t < num_tiles; ++t) mapping[t].emplace_back(t * each, (t + 1) * each);
    top.setTileMapping(state, mapping);
    std::vector<unsigned> values(num_tiles * each);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = initial(i);
    top.setInitialValue(state, poplar::ArrayRef<unsigned>(values));
  }
  const poplar::Tensor all = impl.TensorOf(id);
  if (all.elementType() != poplar::UNSIGNED_INT || all.shape() != shape)
    throw poplar::poplar_error("the name '" + name + "' is Poplar's own, and a variable has it");
  if (!graph.isVirtual()) return all;
  std::vector<poplar::Tensor> tiles;
  for (unsigned t = 0; t < graph.getTarget().getNumTiles(); ++t) {
    const std::size_t tile = graph.convertVirtualTileToPhysicalTile(t);
    tiles.push_back(all.slice(tile, tile + 1, 0));
  }
  return concat(tiles, 0);
}

}  // namespace ipu_model
