// How a C++ function becomes an entry of the PJRT table: checks the caller's struct, turns exceptions into
// errors.
#ifndef JAX_IPU_PJRT_ABI_ENTRY_H_
#define JAX_IPU_PJRT_ABI_ENTRY_H_

#include <cstddef>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <type_traits>

#include "pjrt/abi/c_api.h"
#include "pjrt/abi/error.h"
#include "runtime/process/fork.h"

namespace jax_ipu::pjrt {

// Whether the caller's struct, which may be older than ours, has this field.
#define PJRT_HAS(args, field) \
  ((args).struct_size >= offsetof(std::remove_reference_t<decltype(args)>, field) + sizeof((args).field))

template <typename Struct>
void CheckStruct(const Struct& s) {
  if (s.struct_size >= PjrtStructSize<Struct>::oldest) return;
  throw Error(Code::kInvalidArgument, "The caller's PJRT struct has " + std::to_string(s.struct_size) +
                                          " bytes, the IPU plugin needs at least " +
                                          std::to_string(PjrtStructSize<Struct>::oldest) +
                                          ". Use jax 0.10 or newer.");
}

// Handles cross the C boundary as raw pointers: Release gives one away, Destroy takes it back.
template <typename Handle>
Handle* Release(std::unique_ptr<Handle> handle) {
  return handle.release();
}
template <typename Handle>
void Destroy(Handle* handle) {
  // In a forked child, freeing could wait for ever for a lock that a thread of the parent held at the fork.
  // The child's copy of the memory ends with the process.
  if (IsForkedChild()) return;
  const std::unique_ptr<Handle> owner(handle);
}

template <typename Args, void (*function)(Args&)>
PJRT_Error* Entry(void* raw) noexcept {
  try {
    Args& args = *static_cast<Args*>(raw);
    CheckStruct(args);
    function(args);
    return nullptr;
  } catch (const Error& error) {
    return MakeError(error);
  } catch (const std::bad_alloc&) {
    return MakeError(Error(Code::kResourceExhausted, "Out of host memory in the IPU plugin"));
  } catch (const std::exception& error) {
    return MakeError(Error(Code::kInternal, std::string("IPU plugin: ") + error.what()));
  } catch (...) {
    return MakeError(Error(Code::kInternal, "IPU plugin: unknown exception"));
  }
}

// An entry that needs the device's threads: forked children, which have none, get an error.
template <typename Args, void (*function)(Args&)>
void OnDevice(Args& args) {
  RefuseInForkedChild();
  function(args);
}

#define PJRT_INSTALL_ON_DEVICE(api, name, function)       \
  (api).functions[static_cast<int>(PjrtFunction::name)] = \
      &Entry<PJRT_##name##_Args, &OnDevice<PJRT_##name##_Args, &function>>

#define PJRT_INSTALL(api, name, function) \
  (api).functions[static_cast<int>(PjrtFunction::name)] = &Entry<PJRT_##name##_Args, &function>

}  // namespace jax_ipu::pjrt

#endif  // JAX_IPU_PJRT_ABI_ENTRY_H_
