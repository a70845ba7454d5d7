// Initialisation and attributes of the plugin.
#ifndef JAX_IPU_PJRT_PLUGIN_H_
#define JAX_IPU_PJRT_PLUGIN_H_

#include "pjrt/abi/c_api.h"

namespace jax_ipu::pjrt {

void InstallPlugin(PJRT_Api& api);

}  // namespace jax_ipu::pjrt

#endif  // JAX_IPU_PJRT_PLUGIN_H_
