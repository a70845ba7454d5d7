// Tells when a computation or copy is done, and whether it failed. Shared by all buffers and events that wait
// for it.
#ifndef JAX_IPU_RUNTIME_DEVICE_COMPLETION_H_
#define JAX_IPU_RUNTIME_DEVICE_COMPLETION_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "runtime/executable/executable.h"

namespace jax_ipu {

class Completion {
 public:
  using Callback = std::function<void(const Error*)>;

  static std::shared_ptr<Completion> Failed(const Error& error);

  bool IsReady() const { return ready_.load(std::memory_order_acquire); }
  // Null if the work succeeded. Call only once ready.
  const Error* error() const { return error_ ? &*error_ : nullptr; }
  // Blocks until ready, then returns error().
  const Error* Wait();
  // Blocks until ready, at most for `timeout`. Returns whether it is ready.
  bool WaitFor(std::chrono::steady_clock::duration timeout);
  // Calls `callback` at once when ready, else later on the thread that completes.
  void OnReady(Callback callback);

  // Records that a caller blocks on this completion; only the time of the first one is kept.
  void NoteWaiter();
  // Whether a caller blocked before `time`.
  bool HadWaiterBefore(std::chrono::steady_clock::time_point time) const;

  // Each Completion is completed exactly once, by an owner that keeps its reference until the call returns.
  void Complete() { Finish(); }
  void Fail(const Error& error);

 private:
  void Finish();

  std::atomic<bool> ready_{false};
  std::atomic<std::chrono::steady_clock::rep> first_waiter_{0};  // 0: none
  std::optional<Error> error_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Callback> callbacks_;
};

// A null pointer stands for "ready and successful" wherever a completion is passed, which saves an allocation
// for everything that was ready from the start.
using CompletionPtr = std::shared_ptr<Completion>;
inline bool IsReady(const CompletionPtr& completion) { return !completion || completion->IsReady(); }
inline const Error* Wait(const CompletionPtr& completion) {
  return completion ? completion->Wait() : nullptr;
}
void OnReady(const CompletionPtr& completion, Completion::Callback callback);

}  // namespace jax_ipu

#endif  // JAX_IPU_RUNTIME_DEVICE_COMPLETION_H_
