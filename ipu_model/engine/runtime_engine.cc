// Devices, engines and streams as the plugin's runtime wants them.
#include "ipu_model/Model.hpp"
#include "poplar/Engine.hpp"
#include "poplar/IPUModel.hpp"

namespace ipu_model {

poplar::Device DeviceOf(const std::string& architecture, unsigned tilesPerIPU, bool useModel) {
  if (!useModel) {
    throw poplar::poplar_error(
        "This build of the plugin has no Poplar SDK: it runs on the IPU model. Configure it with "
        "use_model=True, or build the package where the SDK is installed.");
  }
  poplar::IPUModel model(architecture);
  model.tilesPerIPU = tilesPerIPU;
  return model.createDevice();
}

poplar::OptionFlags OptionsOfEngine(const std::string& execution) {
  // Expansions run on the tile engine.
  return {{"execution", execution == "codelets" ? "tile" : execution},
          {"streamMemoryStays", "true"},
          {"replicas", "one"}};
}

int StreamNumber(const poplar::Engine& engine, const std::string& handle) {
  return static_cast<int>(engine.streamIndex(handle));
}
void ConnectStream(poplar::Engine& engine, int stream, void* host) {
  engine.connectStream(static_cast<poplar::Engine::StreamIndex>(stream), host);
}

}  // namespace ipu_model
