// PJRT_AsyncHostToDeviceTransferManager: arrays that a caller fills piece by piece.
#ifndef JAX_IPU_PJRT_BUFFERS_TRANSFER_MANAGER_H_
#define JAX_IPU_PJRT_BUFFERS_TRANSFER_MANAGER_H_

#include <memory>
#include <mutex>
#include <vector>

#include "pjrt/abi/c_api.h"
#include "pjrt/client/client.h"
#include "runtime/memory/array.h"

struct PJRT_AsyncHostToDeviceTransferManager {
  struct Slot {
    PJRT_Buffer_Type type;
    std::shared_ptr<jax_ipu::Array> array;
    jax_ipu::DimensionOrder order;
    std::int64_t bytes_received = 0;
    bool retrieved = false;
  };
  ~PJRT_AsyncHostToDeviceTransferManager();

  // Throws Error(kInvalidArgument) when there is no such buffer.
  Slot& At(int index);

  std::shared_ptr<PJRT_Device> device;
  jax_ipu::pjrt::MemoryKind kind = jax_ipu::pjrt::MemoryKind::kDevice;
  std::mutex mutex;
  std::vector<Slot> slots;
};

namespace jax_ipu::pjrt {

void InstallTransferManager(PJRT_Api& api);

}  // namespace jax_ipu::pjrt

#endif  // JAX_IPU_PJRT_BUFFERS_TRANSFER_MANAGER_H_
