// PJRT_Buffer: a caller's handle on an array.
#ifndef JAX_IPU_PJRT_BUFFERS_BUFFER_H_
#define JAX_IPU_PJRT_BUFFERS_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "pjrt/abi/c_api.h"
#include "pjrt/client/device.h"
#include "runtime/memory/array.h"

struct PJRT_Buffer {
  PJRT_Buffer(std::shared_ptr<PJRT_Device> on_device, jax_ipu::pjrt::MemoryKind kind,
              PJRT_Buffer_Type element_type, std::shared_ptr<jax_ipu::Array> value,
              jax_ipu::DimensionOrder major_to_minor);

  // The array, or null when it has been deleted or donated.
  std::shared_ptr<jax_ipu::Array> Get() const;
  // The array; throws Error(kInvalidArgument), worded as XLA's, when it has been deleted or donated. `what`
  // is the name of the operation.
  std::shared_ptr<jax_ipu::Array> Use(const char* what) const;
  // Takes the array out of the buffer, as deletion and donation do.
  std::shared_ptr<jax_ipu::Array> Take();
  // Undoes Take.
  void PutBack(std::shared_ptr<jax_ipu::Array> array);

  const std::shared_ptr<PJRT_Device> device;
  PJRT_Memory* const memory;  // of the device
  const PJRT_Buffer_Type type;
  // Order of the dimensions in memory. `spec` has the caller's shape, the array the shape in memory
  // order.
  const jax_ipu::DimensionOrder order;
  const std::shared_ptr<const jax_ipu::TensorSpec> spec;

  // All dimensions, from minor to major; valid as long as the buffer.
  const std::int64_t* MinorToMajor() const;

  // While there are external references, the memory outlives deletion of the buffer.
  void AddExternalReference();
  void RemoveExternalReference();
  // Whether the caller may read host memory without requesting a copy. False for ever once the array was
  // pending or on the device: jaxlib 0.12 asks twice for one read and fails if false becomes true. False
  // while reads are guarded, unless it was true before.
  bool IsReadOnHost();

  // Blocks until the array is on the host and returns its memory: always the same, and not shared with other
  // buffers. It stays valid as long as there are external references.
  void* HostPointer();

 private:
  mutable std::mutex mutex_;
  mutable std::vector<std::int64_t> minor_to_major_;  // filled at the first request
  std::shared_ptr<jax_ipu::Array> array_;
  bool shown_ = false;   // IsReadOnHost has returned true
  bool copied_ = false;  // IsReadOnHost has found that a copy is needed
  std::size_t external_references_ = 0;
  std::shared_ptr<jax_ipu::Array> pinned_;
  // Forgets the three members below.
  void Hide();
  std::shared_ptr<jax_ipu::HostBlock> exposed_;  // the memory that HostPointer returned
  std::shared_ptr<void> exposed_memory_;         // keeps it valid while it is borrowed
  void* exposed_data_ = nullptr;
};

namespace jax_ipu::pjrt {

// `order`: of the buffer's dimensions in memory; `array` has its dimensions in memory order.
PJRT_Buffer* MakeBuffer(std::shared_ptr<PJRT_Device> device, MemoryKind kind, PJRT_Buffer_Type type,
                        std::shared_ptr<Array> array, DimensionOrder order = {});
// A copy on the host of `array`, which is or was the buffer's, in another order.
std::shared_ptr<Array> Rearranged(const PJRT_Buffer& buffer, const std::shared_ptr<Array>& array,
                                  const DimensionOrder& order);

// Checks dimensions, size and element type. Throws Error.
std::shared_ptr<const TensorSpec> MakeSpec(PJRT_Buffer_Type type, const std::int64_t* dims, std::size_t rank);
// The memory that a request names, either directly or as the SRAM of a device.
PJRT_Memory* MemoryOf(PJRT_Device* device, PJRT_Memory* memory);

void InstallBuffer(PJRT_Api& api);
void InstallBufferCreation(PJRT_Api& api);

}  // namespace jax_ipu::pjrt

#endif  // JAX_IPU_PJRT_BUFFERS_BUFFER_H_
