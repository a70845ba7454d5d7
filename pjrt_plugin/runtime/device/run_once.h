// Runs a compiled program once, without a PJRT client: ahead-of-time use and tests of the compiler.
#ifndef JAX_IPU_RUNTIME_DEVICE_RUN_ONCE_H_
#define JAX_IPU_RUNTIME_DEVICE_RUN_ONCE_H_

#include <string>
#include <vector>

#include "runtime/executable/executable.h"

namespace jax_ipu {

// Arguments and results as the bytes of dense row-major tensors. Donated state is written first and read
// afterwards. Throws Error(kInvalidArgument) when the arguments do not fit the executable.
std::vector<std::string> RunOnce(const Executable& executable, std::vector<std::string> arguments,
                                 const DeviceConfig& config);

// The same for the replicas of one launch: arguments and results by replica, each replica on a thread of its
// own. Throws the error of the first replica that failed.
std::vector<std::vector<std::string>> RunReplicasOnce(const Executable& executable,
                                                      std::vector<std::vector<std::string>> arguments,
                                                      const DeviceConfig& config);

}  // namespace jax_ipu

#endif  // JAX_IPU_RUNTIME_DEVICE_RUN_ONCE_H_
