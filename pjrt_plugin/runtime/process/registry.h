// What exists once per process: the compiler, the device configuration, the engine factory, and the transport
// to other processes.
#ifndef JAX_IPU_RUNTIME_PROCESS_REGISTRY_H_
#define JAX_IPU_RUNTIME_PROCESS_REGISTRY_H_

#include <functional>
#include <memory>

#include "runtime/device/device_engine.h"
#include "runtime/device/device_runtime.h"
#include "runtime/executable/executable.h"
#include "runtime/executable/image.h"
#include "runtime/process/process_transport.h"

namespace jax_ipu {

// The compiler and the device configuration.
class Registry {
 public:
  static Registry& Get();
  virtual ~Registry() = default;
  virtual void SetCompiler(Compiler compiler) = 0;
  // The compiler, or an empty function.
  virtual Compiler GetCompiler() const = 0;
  // For clients created from now on; without one, programs are not linked.
  virtual void SetLinker(Linker linker) = 0;
  virtual Linker GetLinker() const = 0;
  virtual void SetDeviceConfig(DeviceConfig config) = 0;
  // The configuration that was set, or else that of the environment variables
  // (runtime/process/environment.h), which may throw Error.
  virtual DeviceConfig GetDeviceConfig() const = 0;
};

// The factory for clients created from now on: the binding layer sets CreatePoplarEngine, tests their own.
// Without one, GetEngineFactory throws Error.
void SetEngineFactory(EngineFactory factory);
EngineFactory GetEngineFactory();

// What refuses stored executables when they are loaded, by throwing Error: the library sets CheckCodelets.
// Without one, CheckLoaded accepts all.
using LoadCheck = std::function<void(const Executable&)>;
void SetLoadCheck(LoadCheck check);
void CheckLoaded(const Executable& executable);

// Set by the binding layer, before the client of several processes is created. Until then the functions of
// the transport are empty.
void SetProcessTransport(ProcessTransport transport);
ProcessTransport GetProcessTransport();

// Once PrepareExit was called, never returns on another thread than PrepareExit's. If it did, a daemon thread
// could ask for the GIL while the interpreter ends; Python then unwinds the thread through C++ frames that
// cannot be unwound, which aborts the process.
void ParkIfExiting();

// Makes a device's counters readable by ReadCounters; a newer device of the same id replaces it.
void RegisterDevice(int device_id, std::weak_ptr<DeviceRuntime> device);

}  // namespace jax_ipu

#endif  // JAX_IPU_RUNTIME_PROCESS_REGISTRY_H_
