// PJRT_Memory: a memory of a device. Kind "device" is its SRAM, kind "pinned_host" the host memory that it
// streams from and to.
#ifndef JAX_IPU_PJRT_CLIENT_MEMORY_H_
#define JAX_IPU_PJRT_CLIENT_MEMORY_H_

#include <array>
#include <string>
#include <string_view>

#include "pjrt/abi/c_api.h"

namespace jax_ipu::pjrt {

enum class MemoryKind : int { kDevice, kPinnedHost };
inline constexpr std::array<MemoryKind, 2> kMemoryKinds = {MemoryKind::kDevice, MemoryKind::kPinnedHost};

// JAX's name of the kind.
std::string_view NameOf(MemoryKind kind);

}  // namespace jax_ipu::pjrt

struct PJRT_Memory {
  const void* function_table = nullptr;  // newer callers look here; null: no user data
  int id = 0;
  jax_ipu::pjrt::MemoryKind kind = jax_ipu::pjrt::MemoryKind::kDevice;
  PJRT_Device* device = nullptr;
  std::string to_string;
};

namespace jax_ipu::pjrt {

void InstallMemory(PJRT_Api& api);

}  // namespace jax_ipu::pjrt

#endif  // JAX_IPU_PJRT_CLIENT_MEMORY_H_
