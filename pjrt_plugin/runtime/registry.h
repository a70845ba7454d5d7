// What a process has one of: the compiler, the device configuration, how programs run and reach other
// processes.
#ifndef JAX_IPU_RUNTIME_REGISTRY_H_
#define JAX_IPU_RUNTIME_REGISTRY_H_

#include <functional>
#include <memory>

#include "runtime/device_engine.h"
#include "runtime/device_runtime.h"
#include "runtime/executable.h"
#include "runtime/process_transport.h"

namespace jax_ipu {

// The compiler and the device configuration.
class Registry {
 public:
  static Registry& Get();
  virtual ~Registry() = default;
  virtual void SetCompiler(Compiler compiler) = 0;
  // The compiler, or an empty function.
  virtual Compiler GetCompiler() const = 0;
  virtual void SetDeviceConfig(DeviceConfig config) = 0;
  // The configuration, or that of the environment variables (runtime/environment.h) if none was set, which
  // may throw Error.
  virtual DeviceConfig GetDeviceConfig() const = 0;
};

// The factory for clients created from now on: the binding layer sets CreatePoplarEngine, tests their own.
// Without one, GetEngineFactory throws Error.
void SetEngineFactory(EngineFactory factory);
EngineFactory GetEngineFactory();

// Set by the binding layer, before the client of several processes is created. Without one its functions are
// empty.
void SetProcessTransport(ProcessTransport transport);
ProcessTransport GetProcessTransport();

// Never returns on a thread other than PrepareExit's once that was called. A daemon thread that asks for the
// GIL while the interpreter ends is unwound through C++ frames that cannot be, which aborts the process; so
// it must not come back from here.
void ParkIfExiting();

// Makes a device's counters readable by ReadCounters; a newer device of the same id replaces it.
void RegisterDevice(int device_id, std::weak_ptr<DeviceRuntime> device);

}  // namespace jax_ipu

#endif  // JAX_IPU_RUNTIME_REGISTRY_H_
