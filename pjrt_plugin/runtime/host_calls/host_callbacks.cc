#include "runtime/host_calls/host_callbacks.h"

#include <random>
#include <utility>

namespace jax_ipu {

HostCallbacks& HostCallbacks::Get() {
  // Never destroyed: the functions may need an interpreter that ends before static objects do.
  static HostCallbacks& callbacks = *std::unique_ptr<HostCallbacks>(new HostCallbacks).release();
  return callbacks;
}

HostCallbacks::HostCallbacks() {
  std::random_device random;
  // Starts at random, positive as a signed number and too small for the count to overflow.
  next_id_ = ((static_cast<std::uint64_t>(random()) << 32) | random()) >> 2;
}

std::uint64_t HostCallbacks::Add(Function function) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::uint64_t id = next_id_++;
  entries_[id].function = std::make_shared<const Function>(std::move(function));
  return id;
}

void HostCallbacks::ThrowUnknown() {
  throw Error(
      Code::kFailedPrecondition,
      "The program calls back a Python function that this process does not have: it was compiled in another "
      "process, or the function is gone. Programs with callbacks (jax.pure_callback, io_callback, jax.debug) "
      "cannot be stored; compile the program again");
}

void HostCallbacks::Retain(std::uint64_t id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto entry = entries_.find(id);
  if (entry == entries_.end()) ThrowUnknown();
  ++entry->second.references;
}

void HostCallbacks::Release(std::uint64_t id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto entry = entries_.find(id);
  if (entry == entries_.end() || --entry->second.references > 0) return;
  unused_.push_back(std::move(entry->second.function));
  entries_.erase(entry);
}

HostCallbacks::Unused HostCallbacks::TakeUnused() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(unused_, {});
}

void HostCallbacks::Call(std::uint64_t id, const std::vector<Input>& inputs,
                         const std::vector<Output>& outputs) {
  std::shared_ptr<const Function> function;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto entry = entries_.find(id);
    if (entry == entries_.end()) ThrowUnknown();
    // The program that calls holds a reference, so this copy is not the last one.
    function = entry->second.function;
  }
  (*function)(inputs, outputs);
}

void HostCallbacks::SetWaiter(Waiter waiter) {
  const std::lock_guard<std::mutex> lock(mutex_);
  waiter_ = std::move(waiter);
}

void HostCallbacks::Wait(const std::function<void()>& wait) {
  Waiter waiter;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    waiter = waiter_;
  }
  waiter ? waiter(wait) : wait();
}

HostCallbackReferences::HostCallbackReferences(const std::vector<HostCallbackSpec>& callbacks) {
  ids_.reserve(callbacks.size());
  try {
    for (const HostCallbackSpec& callback : callbacks) {
      HostCallbacks::Get().Retain(callback.id);
      ids_.push_back(callback.id);
    }
  } catch (...) {
    for (const std::uint64_t id : ids_) HostCallbacks::Get().Release(id);
    throw;
  }
}

HostCallbackReferences::~HostCallbackReferences() {
  for (const std::uint64_t id : ids_) HostCallbacks::Get().Release(id);
}

}  // namespace jax_ipu
