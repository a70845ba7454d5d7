// Entry points of PJRT_Client that concern the client itself. loaded_executable.cc has Client_Compile;
// buffer_creation.cc and transfer_manager.cc have the entry points that make buffers.
#include "pjrt/client/client.h"

#include <algorithm>
#include <utility>

#include "ipu_model/Log.hpp"
#include "pjrt/abi/entry.h"
#include "runtime/process/fork.h"
#include "runtime/process/registry.h"

namespace jax_ipu::pjrt {
namespace {

// Options of the client override the registry's configuration; unknown options are ignored.
DeviceConfig ConfigFrom(const PJRT_NamedValue* options, std::size_t size) {
  DeviceConfig config = Registry::Get().GetDeviceConfig();
  config.version = StringOption(options, size, "version", config.version);
  const std::int64_t tiles = IntegerOption(options, size, "num_tiles", config.num_tiles);
  if (tiles < 0 || tiles > 1 << 20) {
    throw Error(Code::kInvalidArgument,
                "num_tiles must be from 0 (all) to the IPU's, not " + std::to_string(tiles));
  }
  config.num_tiles = static_cast<unsigned>(tiles);
  config.execution = StringOption(options, size, "execution", config.execution);
  return config;
}

void ClientCreate(PJRT_Client_Create_Args& args) {
  MarkForksFromNow();
  const DeviceConfig config = ConfigFrom(args.create_options, args.num_options);
  auto client = std::make_unique<PJRT_Client>();
  client->state = std::make_shared<ClientState>(config, MeetProcesses(args, config, TargetOf(config)));
  args.client = Release(std::move(client));
}

void ClientDestroy(PJRT_Client_Destroy_Args& args) {
  if (IsForkedChild()) return;  // the threads are the parent's
  // Buffers and executables may outlive the client, its threads must not.
  for (PJRT_Device* device : args.client->state->addressable_devices) device->runtime->Shutdown();
  Destroy(args.client);
}

void ClientPlatformName(PJRT_Client_PlatformName_Args& args) {
  args.platform_name = kPlatformName.data();
  args.platform_name_size = kPlatformName.size();
}
void ClientProcessIndex(PJRT_Client_ProcessIndex_Args& args) {
  args.process_index = args.client->state->processes.own;
}
// Called when jax.distributed learns of a change in the state of a process.
void ClientUpdateProcesses(PJRT_Client_UpdateGlobalProcessInfo_Args& args) {
  constexpr int kFailed = 4;
  const ProcessTransport transport = GetProcessTransport();
  for (std::size_t i = 0; i < args.num_process_infos; ++i) {
    const PJRT_ProcessInfo& process = args.process_infos[i];
    CheckStruct(process);
    if (process.state != kFailed || process.task_id == args.client->state->processes.own) continue;
    if (!transport.fail) continue;
    transport.fail("jax.distributed has lost process " + std::to_string(process.task_id) + ": " +
                   std::string(process.error_message, process.error_message_size));
  }
}
void ClientPlatformVersion(PJRT_Client_PlatformVersion_Args& args) {
  args.platform_version = args.client->state->topology.platform_version.data();
  args.platform_version_size = args.client->state->topology.platform_version.size();
}
void ClientTopology(PJRT_Client_TopologyDescription_Args& args) {
  args.topology = &args.client->state->topology;
}
void ClientDevices(PJRT_Client_Devices_Args& args) {
  args.devices = args.client->state->device_pointers.data();
  args.num_devices = args.client->state->device_pointers.size();
}
void ClientAddressableDevices(PJRT_Client_AddressableDevices_Args& args) {
  args.addressable_devices = args.client->state->addressable_devices.data();
  args.num_addressable_devices = args.client->state->addressable_devices.size();
}
void ClientAddressableMemories(PJRT_Client_AddressableMemories_Args& args) {
  args.addressable_memories = args.client->state->memory_pointers.data();
  args.num_addressable_memories = args.client->state->memory_pointers.size();
}

void ClientLookupDevice(PJRT_Client_LookupDevice_Args& args) {
  args.device = args.client->state->FindDevice(args.id);
  if (args.device == nullptr) {
    throw Error(Code::kInvalidArgument, "There is no IPU with id " + std::to_string(args.id));
  }
}
void ClientLookupAddressableDevice(PJRT_Client_LookupAddressableDevice_Args& args) {
  const std::vector<PJRT_Device*>& devices = args.client->state->addressable_devices;
  const int id = args.local_hardware_id;
  if (id < 0 || static_cast<std::size_t>(id) >= devices.size()) {
    throw Error(Code::kInvalidArgument, "There is no local IPU " + std::to_string(id));
  }
  args.addressable_device = devices[static_cast<std::size_t>(id)];
}

void ClientDefaultDeviceAssignment(PJRT_Client_DefaultDeviceAssignment_Args& args) {
  const std::int64_t needed = std::int64_t{args.num_replicas} * args.num_partitions;
  const std::vector<PJRT_Device*>& devices = args.client->state->DefaultDevices(needed);
  if (needed < 1 || static_cast<std::size_t>(needed) > devices.size() ||
      static_cast<std::size_t>(needed) > args.default_assignment_size) {
    throw Error(Code::kInvalidArgument, std::to_string(args.num_replicas) + " replicas of " +
                                            std::to_string(args.num_partitions) + " partitions do not fit " +
                                            std::to_string(devices.size()) + " IPUs");
  }
  for (std::size_t i = 0; i < static_cast<std::size_t>(needed); ++i) {
    args.default_assignment[i] = devices[i]->description->id;
  }
}

}  // namespace

namespace {
void LogDevice(const PJRT_DeviceDescription& device) {
  using ipu_model::LogLevel, ipu_model::LogModule;
  if (!IsLogged(LogModule::kTarget, LogLevel::kInfo)) return;
  Log(LogModule::kTarget, LogLevel::kInfo, "attached to " + device.to_string);
}
}  // namespace

ClientState::ClientState(const DeviceConfig& config, Processes known)
    : processes(std::move(known)), topology(config, processes), pool(std::make_shared<HostPool>()) {
  const auto is_here = [&](const auto& description) { return description->process == processes.own; };
  DeviceConfig here_only = topology.config;
  here_only.device_ids.clear();
  for (const auto& description : topology.devices) {
    if (is_here(description)) here_only.device_ids.push_back(description->id);
  }
  usage = Usage::Create(here_only);
  std::size_t place = 0;
  const bool only = here_only.device_ids.size() == 1;
  for (const std::unique_ptr<PJRT_DeviceDescription>& description : topology.devices) {
    const bool here = is_here(description);
    std::shared_ptr<DeviceRuntime> runtime;
    if (here) {
      runtime =
          std::make_shared<DeviceRuntime>(topology.config, GetEngineFactory(), pool, description->id, only,
                                          Usage::Device(usage, place++), Registry::Get().GetLinker());
      RegisterDevice(description->id, runtime);
      LogDevice(*description);
    }
    devices.push_back(std::make_unique<PJRT_Device>(this, description.get(), static_cast<int>(devices.size()),
                                                    std::move(runtime)));
    device_pointers.push_back(devices.back().get());
    if (!here) continue;
    addressable_devices.push_back(devices.back().get());
    const auto& memories = devices.back()->memory_pointers;
    memory_pointers.insert(memory_pointers.end(), memories.begin(), memories.end());
  }
}

PJRT_Device* ClientState::FindDevice(int id) const {
  for (PJRT_Device* device : device_pointers) {
    if (device->description->id == id) return device;
  }
  return nullptr;
}

const std::vector<PJRT_Device*>& ClientState::DefaultDevices(std::int64_t needed) const {
  const bool fit_here = needed <= static_cast<std::int64_t>(addressable_devices.size());
  return fit_here ? addressable_devices : device_pointers;
}

void InstallClient(PJRT_Api& api) {
  PJRT_INSTALL_ON_DEVICE(api, Client_Create, ClientCreate);
  PJRT_INSTALL(api, Client_Destroy, ClientDestroy);
  PJRT_INSTALL(api, Client_PlatformName, ClientPlatformName);
  PJRT_INSTALL(api, Client_ProcessIndex, ClientProcessIndex);
  PJRT_INSTALL(api, Client_UpdateGlobalProcessInfo, ClientUpdateProcesses);
  PJRT_INSTALL(api, Client_PlatformVersion, ClientPlatformVersion);
  PJRT_INSTALL(api, Client_TopologyDescription, ClientTopology);
  PJRT_INSTALL(api, Client_Devices, ClientDevices);
  PJRT_INSTALL(api, Client_AddressableDevices, ClientAddressableDevices);
  PJRT_INSTALL(api, Client_AddressableMemories, ClientAddressableMemories);
  PJRT_INSTALL(api, Client_LookupDevice, ClientLookupDevice);
  PJRT_INSTALL(api, Client_LookupAddressableDevice, ClientLookupAddressableDevice);
  PJRT_INSTALL(api, Client_DefaultDeviceAssignment, ClientDefaultDeviceAssignment);
}

}  // namespace jax_ipu::pjrt
