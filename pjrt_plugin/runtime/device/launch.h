// Running one executable on several devices at the same time, as the replicas of one launch.
#ifndef JAX_IPU_RUNTIME_DEVICE_LAUNCH_H_
#define JAX_IPU_RUNTIME_DEVICE_LAUNCH_H_

#include <memory>
#include <mutex>
#include <vector>

#include "runtime/device/device_runtime.h"
#include "runtime/process/process_transport.h"

namespace jax_ipu {

struct ReplicaCall {
  std::shared_ptr<DeviceRuntime> device;
  std::shared_ptr<LoadedProgram> program;
  std::vector<Argument> arguments;
};

// One per client: gives the launches of all threads one order, the same on every device. Two launches over
// overlapping devices then never wait for each other.
class Launcher {
 public:
  // The calls are the replicas of one program that run in this process. Returns for each call what
  // DeviceRuntime::Execute returns. When a replica fails, the others that need it fail with the same error.
  // Throws, before anything has run, when output memory cannot be allocated. `remote`: where the other
  // replicas are; null when there are none.
  std::vector<DeviceRuntime::Results> Launch(std::vector<ReplicaCall> calls,
                                             std::shared_ptr<RemoteLaunch> remote = nullptr);

 private:
  std::mutex order_;
};

}  // namespace jax_ipu

#endif  // JAX_IPU_RUNTIME_DEVICE_LAUNCH_H_
