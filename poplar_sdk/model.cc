// ipu_model/Model.hpp over Graphcore's SDK: what a runtime needs beyond Poplar. Where the SDK has no
// equivalent, the declaration says so, and the function here throws or returns "not known".
#include "ipu_model/Model.hpp"

#include <map>
#include <sstream>
#include <utility>

#include "core/target/target_model.h"
#include "hlo/Expansion.hpp"
#include "ipu_model/Blocks.hpp"
#include "ipu_model/FirstTile.hpp"
#include "ipu_model/IoTiles.hpp"
#include "ipu_model/Replicas.hpp"
#include "ipu_model/Stacks.hpp"
#include "kernels/host/half_rounding.h"
#include "poplar/DeviceManager.hpp"
#include "poplar/Engine.hpp"
#include "poplar/IPUModel.hpp"
#include "poputil/TileMapping.hpp"

namespace ipu_model {
namespace {

struct NamedType {
  DType number;
  poplar::Type type;
};
const std::vector<NamedType>& Types() {
  static const std::vector<NamedType> types = {{DType::kPred, poplar::BOOL},
                                               {DType::kS8, poplar::SIGNED_CHAR},
                                               {DType::kU8, poplar::UNSIGNED_CHAR},
                                               {DType::kS16, poplar::SHORT},
                                               {DType::kU16, poplar::UNSIGNED_SHORT},
                                               {DType::kS32, poplar::INT},
                                               {DType::kU32, poplar::UNSIGNED_INT},
                                               {DType::kS64, poplar::LONGLONG},
                                               {DType::kU64, poplar::UNSIGNED_LONGLONG},
                                               {DType::kF16, poplar::HALF},
                                               {DType::kF32, poplar::FLOAT},
                                               {DType::kS8, poplar::CHAR},
                                               {DType::kU8, poplar::QUARTER}};
  return types;
}

}  // namespace

DType DTypeOf(const poplar::Type& type) {
  for (const NamedType& named : Types())
    if (named.type == type) return named.number;
  throw poplar::poplar_error("the type " + type.toString() + " has no equivalent in StableHLO");
}

poplar::Type TypeOf(DType type) {
  for (const NamedType& named : Types())
    if (named.number == type) return named.type;
  throw poplar::poplar_error(std::string("Poplar has no type ") + NameOf(type) +
                             ", and this build holds values in Poplar's types only: convert the program's "
                             "values of that type, or run it on the IPU model");
}

const TargetModel& ModelOf(const poplar::Target& target) {
  const std::string architecture(target.getTargetArchString());
  return FindTargetModel(architecture);
}

poplar::Device DeviceOf(const std::string& architecture, unsigned tilesPerIPU, bool useModel) {
  if (useModel) {
    poplar::IPUModel model(architecture.c_str());
    if (tilesPerIPU > 0) model.tilesPerIPU = tilesPerIPU;
    return model.createDevice();
  }
  auto devices = poplar::DeviceManager::createDeviceManager().getDevices(poplar::TargetType::IPU, 1);
  for (poplar::Device& device : devices)
    if (device.attach()) return std::move(device);
  throw poplar::poplar_error("no IPU can be attached: " + std::to_string(devices.size()) +
                             " devices of one IPU were found. Stop the programs that use them, or configure "
                             "the plugin with use_model=True");
}

poplar::Target TargetOfReplicas(const poplar::Target& replica, unsigned replicas) {
  return poplar::Target::createIPUTarget(replicas * replica.getNumIPUs(), replica.getTilesPerIPU(),
                                         replica.getTargetArchString());
}

poplar::Graph GraphWithIoTiles(const poplar::Target& target, poplar::replication_factor replicas,
                               unsigned io_tiles) {
  poplar::Graph graph(target, replicas);
  return io_tiles == 0 ? std::move(graph)
                       : graph.createVirtualGraph(graph.getTarget().getNumTiles() - io_tiles);
}
void MapToIoTiles(poplar::Graph& graph, const poplar::Tensor& tensor, unsigned io_tiles) {
  poplar::Graph all = graph.getTopLevelGraph();
  const unsigned count = all.getTarget().getNumTiles();
  poplar::Graph io = all.createVirtualGraph(count - io_tiles, count);
  poputil::mapTensorLinearly(io, tensor, 1, 1);
}

void MapInBlocks(poplar::Graph& graph, const poplar::Tensor& tensor, const std::vector<std::size_t>& parts) {
  std::vector<poplar::Tensor> blocks = {tensor};
  for (unsigned d = 0; d < parts.size(); ++d) {
    std::vector<poplar::Tensor> cut;
    const std::size_t grain =
        d + 1 == parts.size() ? graph.getTarget().getVectorWidth(tensor.elementType()) : 1;
    const std::size_t extent = tensor.dim(d), grains = (extent + grain - 1) / grain;
    for (const poplar::Tensor& block : blocks) {
      for (std::size_t p = 0; p < parts[d]; ++p) {
        const std::size_t begin = p * grains / parts[d] * grain, end = (p + 1) * grains / parts[d] * grain;
        cut.push_back(block.slice(std::min(begin, extent), std::min(end, extent), d));
      }
    }
    blocks = std::move(cut);
  }
  for (unsigned tile = 0; tile < blocks.size(); ++tile) graph.setTileMapping(blocks[tile], tile);
}

// PopLibs chooses such tiles itself.
void StartLinearMappingsAt(poplar::Graph&, unsigned) {}

poplar::Tensor StackLike(poplar::Graph& graph, const poplar::Tensor& item, std::size_t count,
                         const std::string& name) {
  std::vector<poplar::Tensor> items;
  for (std::size_t i = 0; i < count; ++i) items.push_back(graph.clone(item.expand({0}), name));
  return poplar::concat(items, 0);
}

poplar::OptionFlags OptionsOfEngine(const std::string&) { return {}; }

int StreamNumber(const poplar::Engine& engine, const std::string& handle) {
  const std::vector<std::string> streams = engine.listStreams();
  for (std::size_t i = 0; i < streams.size(); ++i)  // with a direction sign at the end
    if (streams[i].compare(0, streams[i].size() - 1, handle) == 0) return static_cast<int>(i);
  throw poplar::stream_connection_error("there is no stream '" + handle + "'");
}
void ConnectStream(poplar::Engine& engine, int stream, void* host) {
  const std::string handle = engine.listStreams().at(static_cast<std::size_t>(stream));
  engine.connectStream(handle.substr(0, handle.size() - 1), host);
}

void ConnectRemoteBuffer(poplar::Engine&, const std::string& handle, void*) {
  throw poplar::poplar_error("the remote buffer '" + handle +
                             "' is the memory of an array on the IPU model only: move the array as a whole "
                             "(jax.device_put before the loop)");
}
RemoteTraffic RemoteTrafficOf(poplar::Engine&) { return {}; }

void SetReplica(poplar::Engine&, const Replica& replica) {
  if (replica.group == nullptr || replica.group->size() == 1) return;
  throw poplar::poplar_error("a program for " + std::to_string(replica.group->size()) +
                             " IPUs runs on the IPU model only: this runtime has an engine for each replica, "
                             "and Poplar one for all");
}
void SetCancellation(poplar::Engine&, const std::atomic<bool>*, std::function<void()>) {}
std::uint64_t LastRunCycles(const poplar::Engine&) { return 0; }
void SetNameScope(poplar::program::Sequence&, const std::string&) {}

const Report& ReportOf(const poplar::Executable&, unsigned) {
  static const Report unknown;
  return unknown;
}
double HostNanoseconds(const poplar::Executable&, unsigned) {
  return 1e9;
}  // never short enough for the caller's thread

// The SDK's compiler ends between two operations at the earliest.
Deadline::Deadline(double) : outer_(nullptr) {}
Deadline::~Deadline() = default;
void CheckDeadline() {}

struct TilePlanCache::Plans {};
TilePlanCache::TilePlanCache(bool detailed) : plans_(std::make_unique<Plans>()), detailed_(detailed) {}
TilePlanCache::~TilePlanCache() = default;
std::size_t TilePlanCache::size() const { return 0; }

poplar::Executable CompileGraph(const poplar::Graph& graph,
                                const std::vector<poplar::program::Program>& programs,
                                const std::string& name, TilePlanCache* cache, const std::vector<unsigned>&) {
  const auto progress = [cache](int done, int total) {
    if (cache->poll) cache->poll(static_cast<std::size_t>(done), static_cast<std::size_t>(total));
  };
  try {
    return poplar::compileGraph(graph, programs, {}, progress, name);
  } catch (const poplar::graph_memory_allocation_error& error) {
    Report report;
    report.out_of_memory = error.what();
    throw OutOfMemory(error.what(), std::move(report), nullptr);
  }
}

bool IsStrided(const poplar::Tensor& tensor) { return tensor.isContiguous(); }
bool IsRowMajor(const poplar::Tensor& tensor) { return tensor.isContiguous(); }
poplar::Tensor NewTensorMappedLike(poplar::Graph& graph, const poplar::Type& type, const poplar::Tensor& like,
                                   const std::string& name) {
  return graph.clone(type, like, name);
}

std::vector<std::string> CompileCodelets(const std::vector<std::string>&, const std::string&,
                                         const std::string&) {
  throw poplar::poplar_error("this build compiles no codelets itself: use the SDK's program popc");
}

// What the kernels that come with ipu_host ask for. They round to nearest even.
std::atomic<bool> rounds_stochastically{false};
void RoundStochastically(const float*, float*, std::int64_t) {
  throw std::logic_error("there is no stochastic rounding in this build");
}

HostKernels KernelsOfHost() { return {"", 1}; }  // it has none
bool LimitHostKernels(bool, int, bool) { return true; }
void SetStochasticRounding(bool enabled, std::uint64_t) {
  if (enabled)
    throw poplar::poplar_error(
        "stochastic rounding of the process is an option of the IPU model; on hardware "
        "it is part of a program (poplar::setStochasticRounding)");
}

// Expansions are what programs consist of here.
void RunExpansions(poplar::Engine&, const hlo::Expansions&) {}
ExpandedKinds KindsRunBy(const poplar::Engine&) { return {}; }

}  // namespace ipu_model
