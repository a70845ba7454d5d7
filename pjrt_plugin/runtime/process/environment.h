// The device configuration from environment variables, for processes in which no code has set one.
#ifndef JAX_IPU_RUNTIME_PROCESS_ENVIRONMENT_H_
#define JAX_IPU_RUNTIME_PROCESS_ENVIRONMENT_H_

#include "runtime/executable/executable.h"

namespace jax_ipu {

// Reads JAX_IPU_USE_MODEL, JAX_IPU_MODEL_VERSION, JAX_IPU_MODEL_NUM_TILES, JAX_IPU_DEVICE_COUNT,
// JAX_IPU_VISIBLE_DEVICES, JAX_IPU_MODEL_EXECUTION, JAX_IPU_MONITOR, JAX_IPU_SYNTHETIC_DATA and
// JAX_IPU_TRACE_PLANES. jax_ipu/config.py has their values; throws Error(kInvalidArgument) for other values.
DeviceConfig ConfigFromEnvironment();

}  // namespace jax_ipu

#endif  // JAX_IPU_RUNTIME_PROCESS_ENVIRONMENT_H_
