// The profiler extension: what the devices do while JAX's profiler records, as an XSpace.
#ifndef JAX_IPU_PJRT_PROFILER_H_
#define JAX_IPU_PJRT_PROFILER_H_

#include "pjrt/abi/c_api_extensions.h"

namespace jax_ipu::pjrt {

// Returns the extension; `next` follows it in the list of extensions.
PJRT_Extension_Base* ProfilerExtension(PJRT_Extension_Base* next);

}  // namespace jax_ipu::pjrt

#endif  // JAX_IPU_PJRT_PROFILER_H_
