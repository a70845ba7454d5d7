// PJRT_Client: the devices of a process, host memory for their arrays, and compilation.
#ifndef JAX_IPU_PJRT_CLIENT_CLIENT_H_
#define JAX_IPU_PJRT_CLIENT_CLIENT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "pjrt/abi/c_api.h"
#include "pjrt/client/device.h"
#include "pjrt/client/processes.h"
#include "pjrt/client/topology.h"
#include "runtime/device/launch.h"
#include "runtime/memory/host_memory.h"
#include "runtime/recording/usage.h"

namespace jax_ipu::pjrt {

// Lives as long as the client or any of its buffers and executables: callers destroy them in any order.
struct ClientState : std::enable_shared_from_this<ClientState> {
  ClientState(const DeviceConfig& config, Processes processes);

  // Keeps the whole client alive.
  std::shared_ptr<PJRT_Device> Share(PJRT_Device* device) { return {shared_from_this(), device}; }
  PJRT_Device* FindDevice(int id) const;  // null: none
  // Devices for programs without a device assignment: those of this process, if there are enough.
  const std::vector<PJRT_Device*>& DefaultDevices(std::int64_t needed) const;

  const Processes processes;
  PJRT_TopologyDescription topology;
  std::shared_ptr<HostPool> pool;
  std::shared_ptr<Usage> usage;
  std::vector<std::unique_ptr<PJRT_Device>> devices;
  std::vector<PJRT_Device*> device_pointers;
  std::vector<PJRT_Device*> addressable_devices;  // those of this process
  std::vector<PJRT_Memory*> memory_pointers;
  Launcher launcher;
};

void InstallClient(PJRT_Api& api);

}  // namespace jax_ipu::pjrt

struct PJRT_Client {
  std::shared_ptr<jax_ipu::pjrt::ClientState> state;
};

#endif  // JAX_IPU_PJRT_CLIENT_CLIENT_H_
