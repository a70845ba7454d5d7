// What tests of the Poplar API share: a small device, and both execution modes.
#ifndef IPU_MODEL_TESTING_SMALL_DEVICE_H_
#define IPU_MODEL_TESTING_SMALL_DEVICE_H_

#include <cstddef>
#include <vector>

#include "poplar/Engine.hpp"
#include "poplar/Graph.hpp"
#include "poplar/IPUModel.hpp"

namespace ipu_model::toy {

// A device of 4 tiles for each IPU.
inline poplar::Device SmallDevice(unsigned ipus = 1) {
  poplar::IPUModel model("ipu2");
  model.numIPUs = ipus;
  model.tilesPerIPU = 4;
  return model.createDevice();
}

inline poplar::Tensor OnTile(poplar::Graph& graph, const poplar::Type& type, std::vector<std::size_t> shape,
                             unsigned tile, const char* name) {
  const poplar::Tensor t = graph.addVariable(type, shape, name);
  graph.setTileMapping(t, tile);
  return t;
}

// Runs `test` with the options of both modes.
template <typename F>
void InBothModes(F&& test) {
  for (const char* mode : {"fast", "tile"}) test(poplar::OptionFlags{{"execution", mode}});
}

}  // namespace ipu_model::toy

#endif  // IPU_MODEL_TESTING_SMALL_DEVICE_H_
