// The processes of jax.distributed: which IPUs each of them has.
#ifndef JAX_IPU_PJRT_PROCESSES_H_
#define JAX_IPU_PJRT_PROCESSES_H_

#include <string>
#include <vector>

#include "pjrt/c_api.h"
#include "runtime/executable.h"

namespace jax_ipu::pjrt {

struct Process {
  std::vector<int> device_ids;  // unique over all processes
  // What must be installed to communicate with other processes; empty: nothing.
  std::string missing_transport;
};

struct Processes {
  int own = 0;
  std::vector<Process> all = {{}};
};

// Tells the other processes of the client's options (node_id, num_nodes) about this one's IPUs, over the
// caller's key-value store, and waits until all of them have done the same. Devices are numbered from 0 on,
// process after process; a process alone keeps the numbers of its configuration. `target` must be the same
// everywhere. Throws Error(kInvalidArgument) when it is not, Error(kDeadlineExceeded) when a process does not
// come within option process_timeout (seconds).
Processes MeetProcesses(const PJRT_Client_Create_Args& args, const DeviceConfig& config,
                        const std::string& target);

}  // namespace jax_ipu::pjrt

#endif  // JAX_IPU_PJRT_PROCESSES_H_
