// The foreign functions that this process has registered for ipu, and the types of their state.
#ifndef JAX_IPU_RUNTIME_HOST_CALLS_FFI_HANDLERS_H_
#define JAX_IPU_RUNTIME_HOST_CALLS_FFI_HANDLERS_H_

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "runtime/executable/executable.h"
#include "runtime/host_calls/ffi_c_api.h"

namespace jax_ipu {

// The handlers of one target, for the stages of an execution; all but the last may be null.
struct FfiHandlerBundle {
  XLA_FFI_Handler *instantiate = nullptr, *prepare = nullptr, *initialize = nullptr, *execute = nullptr;
  bool operator==(const FfiHandlerBundle& other) const {
    return instantiate == other.instantiate && prepare == other.prepare && initialize == other.initialize &&
           execute == other.execute;
  }
};

// Thread safe. Executables hold names, and look them up when they are loaded.
class FfiHandlers {
 public:
  using Deleter = void (*)(void* object);

  static FfiHandlers& Get();

  // Throws Error(kInvalidArgument) for a bundle without `execute`, or compiled for another version of the
  // interface; Error(kAlreadyExists) when the name has other handlers.
  void Register(const std::string& name, const FfiHandlerBundle& bundle);
  // Throws Error(kUnimplemented), as XLA does; its message describes the call with `call`, and says how to
  // register a handler.
  FfiHandlerBundle Find(const std::string& name, const std::string& call) const;

  // An unknown `type_id` (0) is given a number. Throws Error(kAlreadyExists) when the name or the number is
  // that of another type.
  void RegisterType(const std::string& name, XLA_FFI_TypeId& type_id, Deleter deleter);
  // Empty if there is no such type.
  std::optional<Deleter> DeleterOf(XLA_FFI_TypeId type_id) const;

 private:
  struct Type {
    std::int64_t id;
    Deleter deleter;
  };
  mutable std::mutex mutex_;
  std::map<std::string, FfiHandlerBundle> bundles_;
  std::map<std::string, Type> types_;
  // Starts far above XLA's own ids, which count from one: a type may be registered for several platforms.
  std::int64_t next_type_ = std::int64_t{1} << 40;
};

}  // namespace jax_ipu

#endif  // JAX_IPU_RUNTIME_HOST_CALLS_FFI_HANDLERS_H_
