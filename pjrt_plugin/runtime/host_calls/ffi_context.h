// The services for handlers of foreign functions: the context of a call, and the function table.
#ifndef JAX_IPU_RUNTIME_HOST_CALLS_FFI_CONTEXT_H_
#define JAX_IPU_RUNTIME_HOST_CALLS_FFI_CONTEXT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <new>
#include <string>

#include "runtime/host_calls/ffi_c_api.h"
#include "runtime/host_calls/ffi_handlers.h"

// The state of one call site, and the parameters of the current call.
struct XLA_FFI_ExecutionContext {
  // State that a handler has left for handlers of later stages.
  struct State {
    XLA_FFI_TypeId type{0};
    std::unique_ptr<void, void (*)(void*)> object{nullptr, nullptr};
  };
  struct Free {
    std::align_val_t alignment;
    void operator()(void* memory) const { ::operator delete(memory, alignment); }
  };

  std::array<State, 3> states;  // by stage; only the first (instantiate) outlives a call
  std::map<void*, std::unique_ptr<void, Free>> scratch;
  std::int32_t device_ordinal = 0;
  std::int64_t run_id = 0;
};

namespace jax_ipu {

// A frame without operands, results and attributes.
XLA_FFI_CallFrame FfiCallFrame(XLA_FFI_ExecutionStage stage, XLA_FFI_ExecutionContext* context);

// Calls the handler and waits for it. Throws its error, after `prefix` and followed by `suffix`.
void CallFfiHandler(XLA_FFI_Handler* handler, XLA_FFI_CallFrame& frame, const std::string& prefix,
                    const std::string& suffix = "");

}  // namespace jax_ipu

#endif  // JAX_IPU_RUNTIME_HOST_CALLS_FFI_CONTEXT_H_
