// poplar::Device, DeviceManager and IPUModel.
#include "poplar/Device.hpp"

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <stdexcept>

#include "core/target/target_model.h"
#include "poplar/DeviceManager.hpp"
#include "poplar/IPUModel.hpp"

namespace poplar {
namespace {

void RefuseOptions(const char* function, const OptionFlags& options) {
  for (const auto& [name, value] : options)
    throw invalid_option(std::string(function) + ": there is no option '" + name +
                         "' for devices of the model");
}

// The IPUs that a program which looks for hardware is to find.
unsigned OfferedIpus(std::string* architecture) {
  *architecture = "ipu2";
  const char* const text = std::getenv("IPU_MODEL_DEVICES");
  if (text == nullptr || *text == '\0') return 0;
  std::istringstream words(text);
  unsigned ipus = 0;
  std::string rest;
  words >> ipus;
  const bool number = static_cast<bool>(words);
  words >> *architecture >> rest;
  if (!number || !rest.empty() || ipus > 64) {
    throw poplar_error(std::string("DeviceManager: the environment variable IPU_MODEL_DEVICES = '") + text +
                       "' is not a number of IPUs, up to 64, and an architecture, such as '4 bow'");
  }
  return ipus;
}

}  // namespace

std::vector<int> Device::getDriverIDs() const {
  std::vector<int> ids;
  for (unsigned i = 0; i < getTarget().getNumIPUs(); ++i) ids.push_back(static_cast<int>(id_ + i));
  return ids;
}

std::map<std::string, std::string> Device::getAttributes() const {
  const Target& target = getTarget();
  return {{"architecture", target.getTargetArchString()},
          {"clock", std::to_string(static_cast<unsigned long long>(target.getTileClockFrequency()))},
          {"device type", target.getTargetType() == TargetType::CPU ? "CPU" : "IPU model"},
          {"IPUs", std::to_string(target.getNumIPUs())},
          {"memory per tile", std::to_string(target.getBytesPerTile())},
          {"tiles per IPU", std::to_string(target.getTilesPerIPU())}};
}

std::string Device::getAttribute(const std::string& name) const {
  const std::map<std::string, std::string> attributes = getAttributes();
  const auto found = attributes.find(name);
  if (found != attributes.end()) return found->second;
  std::string names;
  for (const auto& [known, value] : attributes) names += (names.empty() ? "" : ", ") + known;
  throw poplar_error("Device::getAttribute: there is no attribute '" + name + "', there are: " + names);
}

Device Device::createVirtualDevice(unsigned tilesPerIPU) const {
  return Device(getTarget().createVirtualTarget(getTarget().getNumIPUs(), tilesPerIPU), id_);
}

std::vector<Device> DeviceManager::getDevices() const {
  std::string architecture;
  const unsigned ipus = OfferedIpus(&architecture);
  std::vector<Device> devices;
  // As the SDK lists them: single IPUs, then all aligned groups of 2, 4, ...
  for (unsigned size = 1; size <= ipus; size *= 2) {
    for (unsigned first = 0; first + size <= ipus; first += size) {
      devices.emplace_back(Target::createIPUTarget(size, architecture),
                           static_cast<unsigned>(devices.size()));
    }
  }
  return devices;
}

std::vector<Device> DeviceManager::getDevices(TargetType type, unsigned numIPUs,
                                              const OptionFlags& options) const {
  RefuseOptions("DeviceManager::getDevices", options);
  std::vector<Device> devices;
  if (type == TargetType::IPU_MODEL) {
    IPUModel model;
    model.numIPUs = numIPUs;
    devices.push_back(model.createDevice());
  } else if (type == TargetType::IPU) {
    for (Device& device : getDevices()) {
      if (device.getTarget().getNumIPUs() == numIPUs) devices.push_back(std::move(device));
    }
  }
  return devices;
}

Device DeviceManager::getDevice(unsigned id, const OptionFlags& options) const {
  RefuseOptions("DeviceManager::getDevice", options);
  std::vector<Device> devices = getDevices();
  if (id >= devices.size()) {
    throw poplar_error("DeviceManager::getDevice: there is no device " + std::to_string(id) + " of " +
                       std::to_string(devices.size()) +
                       "; the environment variable IPU_MODEL_DEVICES is the number of IPUs to be found");
  }
  return std::move(devices[id]);
}

namespace {

const ipu_model::TargetModel& Architecture(const std::string& version) {
  try {
    return ipu_model::FindTargetModel(version);
  } catch (const std::invalid_argument& error) {
    throw poplar_error(std::string("IPUModel: ") + error.what());
  }
}

}  // namespace

IPUModel::IPUModel(const std::string& version) : IPUVersion(version) {
  const ipu_model::TargetModel& model = Architecture(version);
  tilesPerIPU = model.num_tiles;
  numWorkerContexts = model.worker_contexts;
  memoryBytesPerTile = model.bytes_per_tile;
  tileClockFrequency = model.clock_hz;
  exchangeBytesPerCycle = model.exchange_bytes_per_cycle;
  memcpyBytesPerCycle = model.memcpy_bytes_per_cycle;
  dataPathWidth = 8 * model.data_path_bytes;
  fp8ConvUnitInputLoadElemsPerCycle = model.data_path_bytes;
  fp16ConvUnitInputLoadElemsPerCycle = model.data_path_bytes / 2;
  fp32ConvUnitInputLoadElemsPerCycle = model.data_path_bytes / 4;
  fp16ConvUnitMaxPipelineDepth = model.amp_pipeline_depth;
  fp16InFp16OutConvUnitsPerTile = model.amp_units_half;
  fp16InFp32OutConvUnitsPerTile = model.amp_units_half_float;
  instructionBytes = model.instruction_bytes;
  globalSyncCycles = model.global_sync_cycles;
}

namespace {
// A number of the machine that is not possible.
[[noreturn]] void FailMachine(const std::string& reason) {
  throw invalid_machine_model("IPUModel::createDevice: " + reason);
}
}  // namespace

Device IPUModel::createDevice(const OptionFlags& options, bool /*accurateHalf*/, unsigned id) const {
  RefuseOptions("IPUModel::createDevice", options);
  const ipu_model::TargetModel& model = Architecture(IPUVersion);
  const auto positive = [](const char* name, double number) {
    if (!(number > 0)) FailMachine(std::string(name) + " is not positive");
  };
  positive("numWorkerContexts", numWorkerContexts);
  positive("memoryBytesPerTile", memoryBytesPerTile);
  positive("tileClockFrequency", tileClockFrequency);
  positive("exchangeBytesPerCycle", exchangeBytesPerCycle);
  positive("memcpyBytesPerCycle", memcpyBytesPerCycle);
  positive("instructionBytes", instructionBytes);
  if (tilesPerIPU > model.num_tiles) {
    FailMachine("tilesPerIPU is " + std::to_string(tilesPerIPU) + "; " + IPUVersion + " has " +
                std::to_string(model.num_tiles));
  }
  if (dataPathWidth == 0 || dataPathWidth % 8 != 0) FailMachine("dataPathWidth is not a number of bytes");
  const auto fixed = [](const char* name, unsigned number, unsigned expected) {
    if (number == expected) return;
    FailMachine(std::string(name) + " is " + std::to_string(number) + "; the model has " +
                std::to_string(expected) + " there");
  };
  // Left as it was made, it follows dataPathWidth.
  const auto loaded = [&](const char* name, unsigned number, unsigned bits) {
    if (number != 8 * model.data_path_bytes / bits) fixed(name, number, dataPathWidth / bits);
  };
  loaded("fp8ConvUnitInputLoadElemsPerCycle", fp8ConvUnitInputLoadElemsPerCycle, 8);
  loaded("fp16ConvUnitInputLoadElemsPerCycle", fp16ConvUnitInputLoadElemsPerCycle, 16);
  loaded("fp32ConvUnitInputLoadElemsPerCycle", fp32ConvUnitInputLoadElemsPerCycle, 32);
  fixed("fp16ConvUnitMaxPipelineDepth", fp16ConvUnitMaxPipelineDepth, model.amp_pipeline_depth);
  fixed("fp16InFp16OutConvUnitsPerTile", fp16InFp16OutConvUnitsPerTile, model.amp_units_half);
  fixed("fp16InFp32OutConvUnitsPerTile", fp16InFp32OutConvUnitsPerTile, model.amp_units_half_float);
  ipu_model::TargetChanges changes;
  changes.num_ipus = numIPUs;
  changes.bytes_per_tile = memoryBytesPerTile;
  changes.worker_contexts = numWorkerContexts;
  changes.data_path_bytes = dataPathWidth / 8;
  changes.memcpy_bytes_per_cycle = memcpyBytesPerCycle;
  changes.exchange_bytes_per_cycle = exchangeBytesPerCycle;
  changes.instruction_bytes = instructionBytes;
  changes.clock_hz = tileClockFrequency;
  const unsigned slowest = relativeSyncDelay == RelativeSyncDelayType::NO_DELAY ? 0 : model.sync_cycles;
  changes.sync_cycles = static_cast<int>(std::max(minIPUSyncDelay, slowest));
  changes.global_sync_cycles = static_cast<int>(globalSyncCycles);
  try {
    return Device(ipu_model::TargetOf(ipu_model::ChangedTargetModel(IPUVersion, changes),
                                      tilesPerIPU == 0 ? model.num_tiles : tilesPerIPU),
                  id);
  } catch (const std::invalid_argument& error) {
    FailMachine(error.what());
  }
}

}  // namespace poplar
