// PJRT_LoadedExecutable: an executable on the devices that run it.
#ifndef JAX_IPU_PJRT_EXECUTABLES_LOADED_EXECUTABLE_H_
#define JAX_IPU_PJRT_EXECUTABLES_LOADED_EXECUTABLE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "pjrt/abi/c_api.h"
#include "pjrt/client/client.h"
#include "pjrt/executables/compile_options.h"
#include "runtime/device/residency.h"
#include "runtime/process/process_transport.h"

struct PJRT_LoadedExecutable {
  // One per device of this process, in the order of the caller's argument lists.
  struct Instance {
    std::shared_ptr<PJRT_Device> device;
    std::shared_ptr<jax_ipu::LoadedProgram> program;
  };

  // Throws Error when the executable is for another target, the options ask for devices that do not exist, or
  // its replicas communicate between processes and one of them cannot.
  PJRT_LoadedExecutable(jax_ipu::pjrt::ClientState& client,
                        std::shared_ptr<const jax_ipu::Executable> compiled, std::string options,
                        std::shared_ptr<const jax_ipu::ProgramSource> source = nullptr);

  const std::shared_ptr<jax_ipu::pjrt::ClientState> client;
  const std::shared_ptr<const jax_ipu::Executable> executable;
  const std::string compile_options;                           // serialised xla.CompileOptionsProto
  const std::shared_ptr<const jax_ipu::ProgramSource> source;  // null: it cannot be linked
  std::vector<PJRT_Buffer_Type> output_types;
  std::vector<Instance> instances;
  std::vector<PJRT_Device*> device_pointers;
  std::shared_ptr<jax_ipu::RemoteLaunch> remote;  // null: all replicas are in this process
  std::string device_assignment;                  // serialised
  std::atomic<bool> deleted{false};
  const jax_ipu::CountedProgram counted;

  // The instances for an execution whose caller names the device: `instances` if they are on it. A program
  // for one device is portable and also runs on any other device of this process. Throws
  // Error(kUnimplemented) otherwise.
  const std::vector<Instance>& InstancesOn(PJRT_Device* device);

 private:
  std::mutex elsewhere_mutex_;
  std::map<PJRT_Device*, std::vector<Instance>> elsewhere_;
};

namespace jax_ipu::pjrt {

// Runs on the devices of `instances`; lists are by device. Fills `outputs` with one handle for each output,
// and returns the completion of each device's run. Donated buffers lose their arrays, unless the call throws.
std::vector<CompletionPtr> ExecuteAll(const PJRT_LoadedExecutable& loaded,
                                      const std::vector<PJRT_LoadedExecutable::Instance>& instances,
                                      PJRT_Buffer* const* const* arguments, std::size_t num_arguments,
                                      const PJRT_ExecuteOptions* options, PJRT_Buffer** const* outputs);

void InstallLoadedExecutable(PJRT_Api& api);

}  // namespace jax_ipu::pjrt

#endif  // JAX_IPU_PJRT_EXECUTABLES_LOADED_EXECUTABLE_H_
