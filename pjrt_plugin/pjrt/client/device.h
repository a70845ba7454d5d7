// PJRT_Device: one IPU of a client.
#ifndef JAX_IPU_PJRT_CLIENT_DEVICE_H_
#define JAX_IPU_PJRT_CLIENT_DEVICE_H_

#include <array>
#include <cstddef>
#include <memory>

#include "pjrt/abi/c_api.h"
#include "pjrt/client/memory.h"
#include "pjrt/client/topology.h"
#include "runtime/device/device_runtime.h"

namespace jax_ipu::pjrt {
struct ClientState;
}

struct PJRT_Device {
  // `index` is unique in the client. A device without a runtime belongs to another process.
  PJRT_Device(jax_ipu::pjrt::ClientState* owner, PJRT_DeviceDescription* described, int index,
              std::shared_ptr<jax_ipu::DeviceRuntime> device_runtime);

  jax_ipu::pjrt::ClientState* const client;
  PJRT_DeviceDescription* const description;
  const std::shared_ptr<jax_ipu::DeviceRuntime> runtime;  // null: not addressable from this process
  std::array<PJRT_Memory, jax_ipu::pjrt::kMemoryKinds.size()> memories;  // by kind
  std::array<PJRT_Memory*, jax_ipu::pjrt::kMemoryKinds.size()> memory_pointers;

  PJRT_Memory* memory(jax_ipu::pjrt::MemoryKind kind) const {
    return memory_pointers[static_cast<std::size_t>(kind)];
  }

  bool addressable() const { return runtime != nullptr; }
};

namespace jax_ipu::pjrt {

// Returns `device`. Throws Error(kInvalidArgument) when it belongs to another process.
PJRT_Device* CheckAddressable(PJRT_Device* device);

void InstallDevice(PJRT_Api& api);

}  // namespace jax_ipu::pjrt

#endif  // JAX_IPU_PJRT_CLIENT_DEVICE_H_
