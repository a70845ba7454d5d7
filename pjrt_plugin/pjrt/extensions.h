// Extensions of the function table: layouts, shardings, ABI versions, the profiler. Without the first two a
// client converts the optimised program to HLO to learn them, which costs more than compiling a small
// program.
#ifndef JAX_IPU_PJRT_EXTENSIONS_H_
#define JAX_IPU_PJRT_EXTENSIONS_H_

#include "pjrt/abi/c_api_extensions.h"

namespace jax_ipu::pjrt {

void InstallExtensions(PJRT_Api& api);

}  // namespace jax_ipu::pjrt

#endif  // JAX_IPU_PJRT_EXTENSIONS_H_
