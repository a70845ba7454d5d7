// PJRT_Event: a handle on a completion.
#ifndef JAX_IPU_PJRT_ABI_EVENT_H_
#define JAX_IPU_PJRT_ABI_EVENT_H_

#include "pjrt/abi/c_api.h"
#include "runtime/device/completion.h"

struct PJRT_Event {
  jax_ipu::CompletionPtr completion;  // null: ready
  bool of_array = false;              // of a buffer: a caller that waits for it needs only the value
};

namespace jax_ipu::pjrt {

PJRT_Event* MakeEvent(CompletionPtr completion, bool of_array = false);

void InstallEvent(PJRT_Api& api);

}  // namespace jax_ipu::pjrt

#endif  // JAX_IPU_PJRT_ABI_EVENT_H_
