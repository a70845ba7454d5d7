// Topology and device descriptions, and their entry points.
#include "pjrt/client/topology.h"

#include <cstddef>
#include <stdexcept>
#include <utility>

#include "pjrt/abi/entry.h"
#include "pjrt/abi/serialized_bytes.h"
#include "pjrt/abi/version.h"
#include "poplar/Target.hpp"
#include "poplar/exceptions.hpp"
#include "runtime/process/registry.h"

namespace jax_ipu::pjrt {
namespace {

// All tiles of one IPU of an architecture.
poplar::Target TargetOfVersion(const std::string& version) {
  try {
    return poplar::Target::createIPUTarget(1, version);
  } catch (const poplar::poplar_error& error) {
    throw Error(Code::kInvalidArgument, error.what());
  }
}

DeviceConfig Complete(DeviceConfig config) {
  const poplar::Target target = TargetOfVersion(config.version);
  if (config.num_tiles == 0) config.num_tiles = target.getNumTiles();
  if (config.num_tiles > target.getNumTiles()) {
    throw Error(Code::kInvalidArgument, "An IPU of architecture " + config.version + " has " +
                                            std::to_string(target.getNumTiles()) + " tiles, not " +
                                            std::to_string(config.num_tiles));
  }
  return config;
}

std::string Description(const DeviceConfig& config) { return config.use_model ? "IPU model" : "Poplar SDK"; }

// "<version>" or "<version>:<tiles>"; empty: as configured.
DeviceConfig ParseTopologyName(const std::string& name) {
  DeviceConfig config = Registry::Get().GetDeviceConfig();
  if (name.empty()) return config;
  const std::size_t colon = name.find(':');
  config.version = name.substr(0, colon);
  config.num_tiles = 0;
  if (colon != std::string::npos) {
    try {
      std::size_t end = 0;
      const std::string tiles = name.substr(colon + 1);
      const unsigned long value = std::stoul(tiles, &end);
      if (end != tiles.size() || value == 0 || value > 1u << 20) throw std::invalid_argument(tiles);
      config.num_tiles = static_cast<unsigned>(value);
    } catch (const std::logic_error&) {
      throw Error(
          Code::kInvalidArgument,
          "The IPU topology '" + name + "' is not of the form <version> or <version>:<tiles>, as ipu2:1472");
    }
  }
  return config;
}

void SetDeviceCount(DeviceConfig& config, std::int64_t count) {
  if (count < 1 || count > 4096) {
    throw Error(Code::kInvalidArgument, "num_devices must be from 1 to 4096, not " + std::to_string(count));
  }
  config.device_ids.clear();
  for (int id = 0; id < static_cast<int>(count); ++id) config.device_ids.push_back(id);
}

void DescriptionId(PJRT_DeviceDescription_Id_Args& args) { args.id = args.device_description->id; }
void DescriptionProcessIndex(PJRT_DeviceDescription_ProcessIndex_Args& args) {
  args.process_index = args.device_description->process;
}
void DescriptionAttributes(PJRT_DeviceDescription_Attributes_Args& args) {
  args.attributes = args.device_description->attributes.data();
  args.num_attributes = args.device_description->attributes.size();
}
void DescriptionKind(PJRT_DeviceDescription_Kind_Args& args) {
  args.device_kind = args.device_description->kind.data();
  args.device_kind_size = args.device_description->kind.size();
}
void DescriptionDebugString(PJRT_DeviceDescription_DebugString_Args& args) {
  args.debug_string = args.device_description->debug_string.data();
  args.debug_string_size = args.device_description->debug_string.size();
}
void DescriptionToString(PJRT_DeviceDescription_ToString_Args& args) {
  args.to_string = args.device_description->to_string.data();
  args.to_string_size = args.device_description->to_string.size();
}

void TopologyCreate(PJRT_TopologyDescription_Create_Args& args) {
  DeviceConfig config = ParseTopologyName(std::string(args.topology_name, args.topology_name_size));
  const auto configured = static_cast<std::int64_t>(config.device_ids.size());
  SetDeviceCount(config, IntegerOption(args.create_options, args.num_options, "num_devices", configured));
  args.topology = Release(std::make_unique<PJRT_TopologyDescription>(config));
}
void TopologyDestroy(PJRT_TopologyDescription_Destroy_Args& args) { Destroy(args.topology); }
void TopologyPlatformName(PJRT_TopologyDescription_PlatformName_Args& args) {
  args.platform_name = kPlatformName.data();
  args.platform_name_size = kPlatformName.size();
}
void TopologyPlatformVersion(PJRT_TopologyDescription_PlatformVersion_Args& args) {
  args.platform_version = args.topology->platform_version.data();
  args.platform_version_size = args.topology->platform_version.size();
}
void TopologyDevices(PJRT_TopologyDescription_GetDeviceDescriptions_Args& args) {
  args.descriptions = args.topology->device_pointers.data();
  args.num_descriptions = args.topology->device_pointers.size();
}
void TopologyAttributes(PJRT_TopologyDescription_Attributes_Args& args) {
  args.attributes = args.topology->attributes.data();
  args.num_attributes = args.topology->attributes.size();
}

// "jax_ipu topology 1 <model|hardware> <target> <number of devices>": short, and readable in a dump.
constexpr std::string_view kTopologyHeader = "jax_ipu topology 1 ";

void TopologySerialize(PJRT_TopologyDescription_Serialize_Args& args) {
  const DeviceConfig& config = args.topology->config;
  SerializedBytes bytes(std::string(kTopologyHeader) + (config.use_model ? "model " : "hardware ") +
                        TargetOf(config) + " " + std::to_string(config.device_ids.size()));
  bytes.Give(args.serialized_bytes, args.serialized_bytes_size, args.serialized_topology,
             args.serialized_topology_deleter);
}

void TopologyDeserialize(PJRT_TopologyDescription_Deserialize_Args& args) {
  const std::string text(args.serialized_topology, args.serialized_topology_size);
  const auto refuse = [] {
    return Error(Code::kInvalidArgument, "This is not a serialised IPU topology of this package version");
  };
  if (text.compare(0, kTopologyHeader.size(), kTopologyHeader) != 0) throw refuse();
  const std::string fields = text.substr(kTopologyHeader.size());
  const std::size_t first = fields.find(' '), last = fields.rfind(' ');
  if (first == std::string::npos || first == last) throw refuse();
  DeviceConfig config = ParseTopologyName(fields.substr(first + 1, last - first - 1));
  config.use_model = fields.substr(0, first) == "model";
  std::int64_t count = 0;
  try {
    count = std::stoll(fields.substr(last + 1));
  } catch (const std::logic_error&) {
    throw refuse();
  }
  SetDeviceCount(config, count);
  args.topology = Release(std::make_unique<PJRT_TopologyDescription>(config));
}

}  // namespace

std::string TargetOf(const DeviceConfig& config) {
  return config.version + ":" + std::to_string(Complete(config).num_tiles);
}

std::uint64_t DeviceMemoryBytes(const DeviceConfig& config) {
  return std::uint64_t{Complete(config).num_tiles} * TargetOfVersion(config.version).getBytesPerTile();
}

void InstallTopology(PJRT_Api& api) {
  PJRT_INSTALL(api, DeviceDescription_Id, DescriptionId);
  PJRT_INSTALL(api, DeviceDescription_ProcessIndex, DescriptionProcessIndex);
  PJRT_INSTALL(api, DeviceDescription_Attributes, DescriptionAttributes);
  PJRT_INSTALL(api, DeviceDescription_Kind, DescriptionKind);
  PJRT_INSTALL(api, DeviceDescription_DebugString, DescriptionDebugString);
  PJRT_INSTALL(api, DeviceDescription_ToString, DescriptionToString);
  PJRT_INSTALL(api, TopologyDescription_Create, TopologyCreate);
  PJRT_INSTALL(api, TopologyDescription_Destroy, TopologyDestroy);
  PJRT_INSTALL(api, TopologyDescription_PlatformName, TopologyPlatformName);
  PJRT_INSTALL(api, TopologyDescription_PlatformVersion, TopologyPlatformVersion);
  PJRT_INSTALL(api, TopologyDescription_GetDeviceDescriptions, TopologyDevices);
  PJRT_INSTALL(api, TopologyDescription_Serialize, TopologySerialize);
  PJRT_INSTALL(api, TopologyDescription_Attributes, TopologyAttributes);
  PJRT_INSTALL(api, TopologyDescription_Deserialize, TopologyDeserialize);
}

}  // namespace jax_ipu::pjrt

PJRT_DeviceDescription::PJRT_DeviceDescription(const jax_ipu::DeviceConfig& config, int device_id,
                                               int process_index, int hardware_id)
    : id(device_id), process(process_index), local_hardware_id(hardware_id) {
  const poplar::Target target = jax_ipu::pjrt::TargetOfVersion(config.version);
  const std::string number = std::to_string(id), tiles = std::to_string(config.num_tiles);
  kind = (config.use_model ? "IPU model " : "IPU ") + config.version;
  debug_string = "ipu:" + number;
  to_string = "IpuDevice(id=" + number + ", num_tiles=" + tiles + ", version=" + config.version + ")";
  attributes.Add("version", config.version);
  attributes.Add("num_tiles", std::int64_t{config.num_tiles});
  attributes.Add("bytes_per_tile", static_cast<std::int64_t>(target.getBytesPerTile()));
  attributes.Add("num_worker_contexts", std::int64_t{target.getNumWorkerContexts()});
  attributes.Add("tile_clock_frequency", static_cast<std::int64_t>(target.getTileClockFrequency()));  // Hz
  // jaxlib aborts on device attributes of type bool or float.
  attributes.Add("is_ipu_model", std::int64_t{config.use_model});
  attributes.Add("target_type", std::string(config.use_model ? "IPU_MODEL" : "IPU"));  // poplar::TargetType
}

PJRT_TopologyDescription::PJRT_TopologyDescription(const jax_ipu::DeviceConfig& requested)
    : PJRT_TopologyDescription(requested, {0, {{requested.device_ids, ""}}}) {}

PJRT_TopologyDescription::PJRT_TopologyDescription(const jax_ipu::DeviceConfig& requested,
                                                   const jax_ipu::pjrt::Processes& processes)
    : config(jax_ipu::pjrt::Complete(requested)),
      platform_version("jax_ipu " + std::string(jax_ipu::pjrt::kPackageVersion) + ", " +
                       jax_ipu::pjrt::Description(config)) {
  for (std::size_t p = 0; p < processes.all.size(); ++p) {
    int local_hardware_id = 0;
    for (const int id : processes.all[p].device_ids) {
      devices.push_back(
          std::make_unique<PJRT_DeviceDescription>(config, id, static_cast<int>(p), local_hardware_id++));
      device_pointers.push_back(devices.back().get());
    }
  }
  attributes.Add("target", jax_ipu::pjrt::TargetOf(config));
}
