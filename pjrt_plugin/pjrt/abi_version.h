// ABI versions: whether an executable can run on a client's IPUs, asked before it is loaded.
#ifndef JAX_IPU_PJRT_ABI_VERSION_H_
#define JAX_IPU_PJRT_ABI_VERSION_H_

#include "pjrt/abi/c_api_extensions.h"

namespace jax_ipu::pjrt {

// Returns the extension; `next` follows it in the list of extensions.
PJRT_Extension_Base* AbiVersionExtension(PJRT_Extension_Base* next);

}  // namespace jax_ipu::pjrt

#endif  // JAX_IPU_PJRT_ABI_VERSION_H_
