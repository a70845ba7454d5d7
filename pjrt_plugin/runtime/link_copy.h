// A copy of an array from one IPU's memory to another's, over the IPU-Links.
#ifndef JAX_IPU_RUNTIME_LINK_COPY_H_
#define JAX_IPU_RUNTIME_LINK_COPY_H_

#include <memory>

#include "runtime/array.h"
#include "runtime/device_runtime.h"

namespace jax_ipu {

// One of the IPUs that the links join in a ring, in the order of the client's devices.
struct LinkEnd {
  std::shared_ptr<DeviceRuntime> device;
  unsigned place = 0;
};

// The copy belongs to `to`. On the model it shares the array's host memory, but neither side counts traffic
// of the host link for it: both take the cycles of the transfer, the receiver counts the bytes.
std::shared_ptr<Array> CopyOverLinks(const std::shared_ptr<Array>& array, const LinkEnd& from,
                                     const LinkEnd& to, unsigned ring);

}  // namespace jax_ipu

#endif  // JAX_IPU_RUNTIME_LINK_COPY_H_
