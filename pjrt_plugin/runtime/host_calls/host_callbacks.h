// The functions of this process that programs call back: one registry, from id to function.
#ifndef JAX_IPU_RUNTIME_HOST_CALLS_HOST_CALLBACKS_H_
#define JAX_IPU_RUNTIME_HOST_CALLS_HOST_CALLBACKS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "runtime/executable/executable.h"

namespace jax_ipu {

// Thread safe. Executables hold ids, never functions: an id means nothing in another process, and a function
// may need an interpreter that ends before the executables do.
class HostCallbacks {
 public:
  struct Input {
    const void* data;
    std::size_t bytes;
  };
  struct Output {
    void* data;
    std::size_t bytes;
  };
  // Operands are dense row-major arrays that are valid during the call. May throw Error.
  using Function = std::function<void(const std::vector<Input>&, const std::vector<Output>&)>;

  static HostCallbacks& Get();

  // Registers the function with one reference and returns its id. Ids of two processes differ.
  std::uint64_t Add(Function function);
  // Throws Error(kFailedPrecondition) when there is no such function in this process.
  void Retain(std::uint64_t id);
  // A function that has lost its last reference is kept until TakeUnused returns it.
  void Release(std::uint64_t id);
  // Functions without references, for a caller that may destroy them (one that holds the interpreter's lock).
  using Unused = std::vector<std::shared_ptr<const Function>>;
  Unused TakeUnused();

  void Call(std::uint64_t id, const std::vector<Input>& inputs, const std::vector<Output>& outputs);

  // Calls `wait`, which blocks on work that may call back, without the interpreter's lock. Set once by the
  // owner of the interpreter.
  using Waiter = std::function<void(const std::function<void()>& wait)>;
  void SetWaiter(Waiter waiter);
  void Wait(const std::function<void()>& wait);

 private:
  struct Entry {
    std::shared_ptr<const Function> function;
    std::size_t references = 1;
  };
  HostCallbacks();
  [[noreturn]] static void ThrowUnknown();

  std::mutex mutex_;
  std::uint64_t next_id_;
  std::unordered_map<std::uint64_t, Entry> entries_;
  Unused unused_;
  Waiter waiter_;
};

// References to the callbacks of one executable.
class HostCallbackReferences {
 public:
  // Throws as Retain does.
  explicit HostCallbackReferences(const std::vector<HostCallbackSpec>& callbacks);
  ~HostCallbackReferences();
  HostCallbackReferences(const HostCallbackReferences&) = delete;
  HostCallbackReferences& operator=(const HostCallbackReferences&) = delete;

 private:
  std::vector<std::uint64_t> ids_;
};

}  // namespace jax_ipu

#endif  // JAX_IPU_RUNTIME_HOST_CALLS_HOST_CALLBACKS_H_
