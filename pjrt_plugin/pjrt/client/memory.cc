// Entry points of PJRT_Memory.
#include "pjrt/client/memory.h"

#include "pjrt/abi/entry.h"

namespace jax_ipu::pjrt {
namespace {

void MemoryId(PJRT_Memory_Id_Args& args) { args.id = args.memory->id; }
void MemoryKindName(PJRT_Memory_Kind_Args& args) {
  const std::string_view name = NameOf(args.memory->kind);
  args.kind = name.data();
  args.kind_size = name.size();
}
void MemoryKindId(PJRT_Memory_Kind_Id_Args& args) { args.kind_id = static_cast<int>(args.memory->kind); }
void MemoryDebugString(PJRT_Memory_DebugString_Args& args) {
  args.debug_string = args.memory->to_string.data();
  args.debug_string_size = args.memory->to_string.size();
}
void MemoryToString(PJRT_Memory_ToString_Args& args) {
  args.to_string = args.memory->to_string.data();
  args.to_string_size = args.memory->to_string.size();
}
void MemoryDevices(PJRT_Memory_AddressableByDevices_Args& args) {
  args.devices = &args.memory->device;
  args.num_devices = 1;
}

}  // namespace

std::string_view NameOf(MemoryKind kind) {
  return kind == MemoryKind::kPinnedHost ? "pinned_host" : "device";
}

void InstallMemory(PJRT_Api& api) {
  PJRT_INSTALL(api, Memory_Id, MemoryId);
  PJRT_INSTALL(api, Memory_Kind, MemoryKindName);
  PJRT_INSTALL(api, Memory_Kind_Id, MemoryKindId);
  PJRT_INSTALL(api, Memory_DebugString, MemoryDebugString);
  PJRT_INSTALL(api, Memory_ToString, MemoryToString);
  PJRT_INSTALL(api, Memory_AddressableByDevices, MemoryDevices);
}

}  // namespace jax_ipu::pjrt
