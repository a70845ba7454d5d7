// The processes of jax.distributed: which IPUs each of them has.
#ifndef JAX_IPU_PJRT_CLIENT_PROCESSES_H_
#define JAX_IPU_PJRT_CLIENT_PROCESSES_H_

#include <string>
#include <vector>

#include "pjrt/abi/c_api.h"
#include "runtime/executable/executable.h"

namespace jax_ipu::pjrt {

struct Process {
  std::vector<int> device_ids;  // unique over all processes
  // What must be installed to communicate with other processes; empty if nothing is missing.
  std::string missing_transport;
};

struct Processes {
  int own = 0;
  std::vector<Process> all = {{}};
};

// Publishes this process's IPUs in the caller's key-value store and waits until all processes have done so;
// the client options node_id and num_nodes say which they are. Devices are numbered from 0 on, process after
// process; a single process keeps the numbers of its configuration. Throws Error(kInvalidArgument) when
// `target` is not the same in all processes, Error(kDeadlineExceeded) when a process does not appear within
// the option process_timeout (seconds).
Processes MeetProcesses(const PJRT_Client_Create_Args& args, const DeviceConfig& config,
                        const std::string& target);

}  // namespace jax_ipu::pjrt

#endif  // JAX_IPU_PJRT_CLIENT_PROCESSES_H_
