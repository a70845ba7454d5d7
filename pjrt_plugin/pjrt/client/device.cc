// Entry points of PJRT_Device.
#include "pjrt/client/device.h"

#include <string>
#include <utility>

#include "pjrt/abi/entry.h"
#include "pjrt/client/client.h"

PJRT_Device::PJRT_Device(jax_ipu::pjrt::ClientState* owner, PJRT_DeviceDescription* described, int index,
                         std::shared_ptr<jax_ipu::DeviceRuntime> device_runtime)
    : client(owner), description(described), runtime(std::move(device_runtime)) {
  for (const jax_ipu::pjrt::MemoryKind kind : jax_ipu::pjrt::kMemoryKinds) {
    const auto place = static_cast<std::size_t>(kind);
    PJRT_Memory& memory = memories[place];
    memory.id = index * static_cast<int>(memories.size()) + static_cast<int>(kind);
    memory.kind = kind;
    memory.device = this;
    const bool on_device = kind == jax_ipu::pjrt::MemoryKind::kDevice;
    memory.to_string = (on_device ? "SRAM of " : "Host memory of ") + description->debug_string;
    memory_pointers[place] = &memory;
  }
}

namespace jax_ipu::pjrt {
namespace {

void DeviceDescription(PJRT_Device_GetDescription_Args& args) {
  args.device_description = args.device->description;
}
void DeviceIsAddressable(PJRT_Device_IsAddressable_Args& args) {
  args.is_addressable = args.device->addressable();
}
void DeviceLocalHardwareId(PJRT_Device_LocalHardwareId_Args& args) {
  args.local_hardware_id = args.device->addressable() ? args.device->description->local_hardware_id : -1;
}
void DeviceMemories(PJRT_Device_AddressableMemories_Args& args) {
  args.memories = args.device->memory_pointers.data();
  args.num_memories = args.device->addressable() ? args.device->memory_pointers.size() : 0;
}
void DeviceDefaultMemory(PJRT_Device_DefaultMemory_Args& args) {
  args.memory = args.device->memory(MemoryKind::kDevice);
}

// The attributes belong to the device: the deleter does nothing.
void DeviceAttributes(PJRT_Device_GetAttributes_Args& args) {
  args.attributes = args.device->description->attributes.data();
  args.num_attributes = args.device->description->attributes.size();
  args.device_attributes = nullptr;
  args.attributes_deleter = [](PJRT_Device_Attributes*) {};
}

void DeviceMemoryStats(PJRT_Device_MemoryStats_Args& args) {
  CheckAddressable(args.device);
  args.bytes_in_use = static_cast<std::int64_t>(args.device->runtime->bytes_in_use());
  args.peak_bytes_in_use = static_cast<std::int64_t>(args.device->runtime->peak_bytes_in_use());
  args.peak_bytes_in_use_is_set = true;
  args.bytes_limit = static_cast<std::int64_t>(DeviceMemoryBytes(args.device->client->topology.config));
  // A program may use the whole SRAM: nothing is reserved.
  args.bytes_reservable_limit = args.bytes_limit;
  args.bytes_limit_is_set = args.bytes_reservable_limit_is_set = true;
  args.num_allocs = args.largest_alloc_size = args.bytes_reserved = args.peak_bytes_reserved = 0;
  args.num_allocs_is_set = args.largest_alloc_size_is_set = false;
  args.bytes_reserved_is_set = args.peak_bytes_reserved_is_set = false;
  args.largest_free_block_bytes = args.pool_bytes = args.peak_pool_bytes = 0;
  args.largest_free_block_bytes_is_set = false;
  args.pool_bytes_is_set = args.peak_pool_bytes_is_set = false;
  if (PJRT_HAS(args, peak_allocated_bytes_is_set)) {
    args.peak_allocated_bytes = 0;
    args.peak_allocated_bytes_is_set = false;
  }
}

}  // namespace

PJRT_Device* CheckAddressable(PJRT_Device* device) {
  if (device->addressable()) return device;
  throw Error(
      Code::kInvalidArgument,
      "IPU " + std::to_string(device->description->id) + " belongs to process " +
          std::to_string(device->description->process) +
          ": arrays are put there by that process. Use "
          "jax.local_devices(), or jax.make_array_from_process_local_data for arrays over all processes");
}

void InstallDevice(PJRT_Api& api) {
  PJRT_INSTALL(api, Device_GetDescription, DeviceDescription);
  PJRT_INSTALL(api, Device_IsAddressable, DeviceIsAddressable);
  PJRT_INSTALL(api, Device_LocalHardwareId, DeviceLocalHardwareId);
  PJRT_INSTALL(api, Device_AddressableMemories, DeviceMemories);
  PJRT_INSTALL(api, Device_DefaultMemory, DeviceDefaultMemory);
  PJRT_INSTALL(api, Device_MemoryStats, DeviceMemoryStats);
  PJRT_INSTALL(api, Device_GetAttributes, DeviceAttributes);
}

}  // namespace jax_ipu::pjrt
