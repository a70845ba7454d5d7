// PJRT_Memory: the one memory space of a device, kind "device".
#ifndef JAX_IPU_PJRT_MEMORY_H_
#define JAX_IPU_PJRT_MEMORY_H_

#include <string>
#include <string_view>

#include "pjrt_plugin/pjrt/c_api.h"

struct PJRT_Memory {
  const void* function_table = nullptr;  // newer callers look here; null: no user data
  int id = 0;
  PJRT_Device* device = nullptr;
  std::string to_string;
};

namespace jax_ipu::pjrt {

inline constexpr std::string_view kMemoryKind = "device";

void InstallMemory(PJRT_Api& api);

}  // namespace jax_ipu::pjrt

#endif  // JAX_IPU_PJRT_MEMORY_H_
