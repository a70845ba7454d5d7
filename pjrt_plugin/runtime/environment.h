// The configuration of devices by environment variables, for processes in which nobody has set one otherwise.
#ifndef JAX_IPU_RUNTIME_ENVIRONMENT_H_
#define JAX_IPU_RUNTIME_ENVIRONMENT_H_

#include "runtime/executable.h"

namespace jax_ipu {

// By JAX_IPU_USE_MODEL, JAX_IPU_MODEL_VERSION, JAX_IPU_MODEL_NUM_TILES, JAX_IPU_DEVICE_COUNT,
// JAX_IPU_VISIBLE_DEVICES and JAX_IPU_MODEL_EXECUTION, whose values are those of jax_ipu/config.py. Throws
// Error(kInvalidArgument) for others.
DeviceConfig ConfigFromEnvironment();

}  // namespace jax_ipu

#endif  // JAX_IPU_RUNTIME_ENVIRONMENT_H_
