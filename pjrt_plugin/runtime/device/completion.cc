// Completion: ready flag, error and callbacks.
#include "runtime/device/completion.h"

#include <utility>

namespace jax_ipu {

std::shared_ptr<Completion> Completion::Failed(const Error& error) {
  auto completion = std::make_shared<Completion>();
  completion->Fail(error);
  return completion;
}

const Error* Completion::Wait() {
  if (!IsReady()) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return IsReady(); });
  }
  return error();
}

bool Completion::WaitFor(std::chrono::steady_clock::duration timeout) {
  std::unique_lock<std::mutex> lock(mutex_);
  return changed_.wait_for(lock, timeout, [this] { return IsReady(); });
}

void Completion::OnReady(Callback callback) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!IsReady()) {
      callbacks_.push_back(std::move(callback));
      return;
    }
  }
  callback(error());
}

void Completion::NoteWaiter() {
  std::chrono::steady_clock::rep none = 0;
  if (IsReady() || first_waiter_.load(std::memory_order_relaxed) != none) return;
  first_waiter_.compare_exchange_strong(none, std::chrono::steady_clock::now().time_since_epoch().count(),
                                        std::memory_order_relaxed);
}

bool Completion::HadWaiterBefore(std::chrono::steady_clock::time_point time) const {
  const std::chrono::steady_clock::rep first = first_waiter_.load(std::memory_order_relaxed);
  return first != 0 && first < time.time_since_epoch().count();
}

void Completion::Fail(const Error& error) {
  error_ = error;
  Finish();
}

void Completion::Finish() {
  std::vector<Callback> callbacks;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ready_.store(true, std::memory_order_release);
    callbacks.swap(callbacks_);
  }
  changed_.notify_all();
  for (Callback& callback : callbacks) callback(error());
}

void OnReady(const CompletionPtr& completion, Completion::Callback callback) {
  if (completion) {
    completion->OnReady(std::move(callback));
  } else {
    callback(nullptr);
  }
}

}  // namespace jax_ipu
