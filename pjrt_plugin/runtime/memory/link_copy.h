// A copy of an array from one IPU's memory to another's, over the IPU-Links.
#ifndef JAX_IPU_RUNTIME_MEMORY_LINK_COPY_H_
#define JAX_IPU_RUNTIME_MEMORY_LINK_COPY_H_

#include <memory>

#include "runtime/device/device_runtime.h"
#include "runtime/memory/array.h"

namespace jax_ipu {

// One of the IPUs that the links join in a ring, in the order of the client's devices.
struct LinkEnd {
  std::shared_ptr<DeviceRuntime> device;
  unsigned place = 0;
};

// Returns an array on `to`. In the model it shares the host memory of `array`, but no host link traffic is
// counted: both IPUs are charged the cycles of the transfer, and the receiver counts the bytes.
std::shared_ptr<Array> CopyOverLinks(const std::shared_ptr<Array>& array, const LinkEnd& from,
                                     const LinkEnd& to, unsigned ring);

}  // namespace jax_ipu

#endif  // JAX_IPU_RUNTIME_MEMORY_LINK_COPY_H_
