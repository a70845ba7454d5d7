// PJRT_TopologyDescription and PJRT_DeviceDescription: describe IPUs without using them.
#ifndef JAX_IPU_PJRT_CLIENT_TOPOLOGY_H_
#define JAX_IPU_PJRT_CLIENT_TOPOLOGY_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "pjrt/abi/c_api.h"
#include "pjrt/abi/named_values.h"
#include "pjrt/client/processes.h"
#include "runtime/executable/executable.h"

struct PJRT_DeviceDescription {
  // Throws Error(kInvalidArgument) for an unknown architecture.
  PJRT_DeviceDescription(const jax_ipu::DeviceConfig& config, int id, int process, int local_hardware_id);

  int id;
  int process;            // the process that the device belongs to
  int local_hardware_id;  // its number in that process
  std::string kind, debug_string, to_string;
  jax_ipu::pjrt::NamedValues attributes;
};

struct PJRT_TopologyDescription {
  // With the devices of all processes.
  PJRT_TopologyDescription(const jax_ipu::DeviceConfig& config, const jax_ipu::pjrt::Processes& processes);
  // With the devices of the configuration.
  explicit PJRT_TopologyDescription(const jax_ipu::DeviceConfig& config);

  jax_ipu::DeviceConfig config;  // with the number of tiles filled in
  std::string platform_version;
  std::vector<std::unique_ptr<PJRT_DeviceDescription>> devices;
  std::vector<PJRT_DeviceDescription*> device_pointers;
  jax_ipu::pjrt::NamedValues attributes;
};

namespace jax_ipu::pjrt {

inline constexpr std::string_view kPlatformName = "ipu";

// The target that executables are compiled for, "<version>:<tiles>".
std::string TargetOf(const DeviceConfig& config);
// SRAM of one device.
std::uint64_t DeviceMemoryBytes(const DeviceConfig& config);

void InstallTopology(PJRT_Api& api);

}  // namespace jax_ipu::pjrt

#endif  // JAX_IPU_PJRT_CLIENT_TOPOLOGY_H_
