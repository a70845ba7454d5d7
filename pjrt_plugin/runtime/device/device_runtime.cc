// DeviceRuntime: the queue, its thread, and when work runs inline.
#include "runtime/device/device_runtime.h"

#include <pthread.h>
#include <signal.h>

#include <chrono>
#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "runtime/device/interrupt.h"
#include "runtime/process/fork.h"

namespace jax_ipu {
namespace {

// Runs of up to this time are done on the calling thread: about the cost of two thread switches.
constexpr double kInlineRunNanoseconds = 50e3;
// The longest run on the thread of a caller that waits at once: other users of the device must wait for it.
constexpr double kAwaitedRunNanoseconds = 5e6;
// A caller that begins to wait within this time after its call counts as one that waits at once.
constexpr auto kAtOnce = std::chrono::microseconds(100);
// How often a thread that runs a program itself, or waits for one, looks for signals.
constexpr auto kPollInterval = std::chrono::milliseconds(50);
constexpr std::size_t kInlineCopyBytes = std::size_t{256} << 10;

// Returns the error that `run` ended with, if any. Only this file handles exceptions other than Error.
template <typename F>
std::optional<Error> Try(F&& run) {
  try {
    run();
    return std::nullopt;
  } catch (const Error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return Error(Code::kResourceExhausted, "Out of host memory while running an IPU program");
  } catch (const std::exception& error) {
    return Error(Code::kInternal, std::string("The IPU program failed: ") + error.what());
  }
}

}  // namespace

void DeviceRuntime::DeviceHold::Release() {
  if (runtime_ == nullptr) return;
  {
    const std::lock_guard<std::mutex> lock(runtime_->mutex_);
    runtime_->held_ = false;
    runtime_->caller_ = {};
    if (runtime_->queue_.empty() && !runtime_->stopped_) {
      runtime_ = nullptr;
      return;
    }
  }
  runtime_->changed_.notify_all();
  runtime_ = nullptr;
}

bool DeviceRuntime::IsIdle() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return !held_ && queue_.empty();
}

DeviceRuntime::DeviceHold DeviceRuntime::TryHold(bool run) {
  RefuseInForkedChild();
  const std::lock_guard<std::mutex> lock(mutex_);
  if (held_ || !queue_.empty()) return DeviceHold(nullptr);
  Work work;
  if (run) work.caller = std::this_thread::get_id();
  Hold(work);
  if (run) cancellation_.poll = [this] { PollWhileInline(); };
  return DeviceHold(this);
}

void DeviceRuntime::Hold(const Work& work) {
  held_ = true;
  holder_ = std::this_thread::get_id();
  caller_ = work.caller;
  cancellation_.requested.store(work.cancelled, std::memory_order_relaxed);
  cancellation_.poll = nullptr;
  next_poll_ = {};
}

// While the caller's own thread runs a program, no other code checks its signals.
void DeviceRuntime::PollWhileInline() {
  const auto now = std::chrono::steady_clock::now();
  if (now < next_poll_) return;
  const bool first = next_poll_ == std::chrono::steady_clock::time_point();
  next_poll_ = now + kPollInterval;
  if (!first && IsInterrupted()) cancellation_.requested.store(true, std::memory_order_relaxed);
}

void DeviceRuntime::Cancel(std::thread::id caller) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (Work& work : queue_) work.cancelled = work.cancelled || work.caller == caller;
  if (held_ && caller_ == caller) cancellation_.requested.store(true, std::memory_order_relaxed);
}

void DeviceRuntime::Do(Work work, DeviceHold hold) {
  const std::optional<Error> error = Try(work.run);
  // Release the device before completing: a caller that waits for this work will probably use it at once.
  hold.Release();
  // Release the arrays before completing: the next call then gets memory that is still in the cache.
  work.run = nullptr;
  if (error) {
    work.done->Fail(*error);
  } else {
    work.done->Complete();
  }
}

void DeviceRuntime::Enqueue(Work work) {
  if (TryEnqueue(work)) return;
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return !held_ && queue_.empty(); });
  Hold(work);
  lock.unlock();
  Do(std::move(work), DeviceHold(this));
}

bool DeviceRuntime::TryEnqueue(Work& work) {
  RefuseInForkedChild();
  std::unique_lock<std::mutex> lock(mutex_);
  if (held_ && holder_ == std::this_thread::get_id()) {
    throw Error(Code::kFailedPrecondition,
                "A host callback (jax.pure_callback, io_callback, jax.debug) uses the IPU whose program "
                "waits for it. "
                "Compute on the CPU in callbacks (jax.default_device(jax.devices('cpu')[0]), or NumPy), and "
                "pass arrays "
                "of the IPU as arguments");
  }
  if (stopped_) return false;
  queue_.push_back(std::move(work));
  if (!thread_.joinable()) {
    // Block all signals: the host process handles them on its own threads.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([this] { WorkLoop(); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  lock.unlock();
  changed_.notify_all();
  return true;
}

void DeviceRuntime::WorkLoop() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return !held_ && (!queue_.empty() || stopped_); });
    if (queue_.empty()) return;
    Work work = std::move(queue_.front());
    queue_.pop_front();
    Hold(work);
    lock.unlock();
    Do(std::move(work), DeviceHold(this));
    lock.lock();
  }
}

void DeviceRuntime::Finish() {
  RefuseInForkedChild();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!held_ && queue_.empty()) return;
  }
  auto done = std::make_shared<Completion>();
  Enqueue({[] {}, done, {}});
  while (!done->WaitFor(kPollInterval)) {
    if (IsInterrupted()) CancelRuns();
  }
}

Counters DeviceRuntime::counters() {
  Finish();
  return residency_.counters();
}

void DeviceRuntime::Shutdown() {
  if (IsForkedChild()) return;  // the thread is the parent's
  std::thread thread;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopped_ = true;
    thread.swap(thread_);
  }
  changed_.notify_all();
  if (!thread.joinable()) return;
  if (thread.get_id() == std::this_thread::get_id()) {
    thread.detach();  // this thread dropped the last owner, in a callback of its last run
  } else {
    HostCallbacks::Get().Wait([&thread] { thread.join(); });
  }
}

ArrayList DeviceRuntime::MakeOutputs(const std::shared_ptr<const Executable>& executable,
                                     const std::vector<Argument>& arguments,
                                     const CompletionPtr& done) const {
  ArrayList outputs;
  outputs.reserve(executable->outputs.size());
  for (const OutputSpec& spec : executable->outputs) {
    std::shared_ptr<HostBlock> host;
    if (spec.forwarded_input >= 0) {
      const Array& argument = *arguments[static_cast<std::size_t>(spec.forwarded_input)].array;
      if (argument.on_host()) {
        host = argument.host();
        host->Own(pool_);
      }
    } else if (spec.aliased_input < 0) {
      host = HostBlock::Allocate(pool_, spec.tensor.bytes());
    }
    outputs.push_back(std::make_shared<Array>(std::shared_ptr<const TensorSpec>(executable, &spec.tensor),
                                              std::move(host), done));
  }
  return outputs;
}

DeviceRuntime::Results DeviceRuntime::Execute(const std::shared_ptr<LoadedProgram>& program,
                                              std::vector<Argument> arguments, std::uint64_t run_id) {
  const std::shared_ptr<const Executable>& executable = program->executable();
  // Programs with callbacks are queued: a callback may wait for the caller's next action.
  const double cost = executable->cost.host_nanoseconds;
  const bool small = cost < kInlineRunNanoseconds;
  const double most = is_only_device_ ? kAwaitedRunNanoseconds : kInlineRunNanoseconds;
  const bool may_run_here = !executable->calls_host() && cost < most;
  bool ready = may_run_here && (small || program->wait_habit().expected());
  for (const Argument& argument : arguments) ready = ready && IsReady(argument.array->ready());

  Results results;
  if (ready) {
    if (DeviceHold hold = TryHold(/*run=*/true); hold && residency_.IsCheapToSwitchTo(*program, arguments)) {
      if (!small) program->wait_habit().Trust();
      results.outputs = MakeOutputs(executable, arguments, nullptr);
      const std::optional<Error> error =
          Try([&] { residency_.Run(program, arguments, results.outputs, nullptr, run_id); });
      if (error) {
        results.done = Completion::Failed(*error);
        for (const std::shared_ptr<Array>& output : results.outputs) output->set_ready(results.done);
      }
      return results;
    }
  }
  Work work = MakeWork(program, std::move(arguments), nullptr, run_id, &results);
  if (may_run_here && !small) {
    work.run = [run = std::move(work.run), program, done = results.done, idle = IsIdle(),
                begin = std::chrono::steady_clock::now()] {
      run();
      program->wait_habit().Observe(idle && done->HadWaiterBefore(begin + kAtOnce));
    };
  }
  Enqueue(std::move(work));
  return results;
}

DeviceRuntime::Work DeviceRuntime::MakeWork(const std::shared_ptr<LoadedProgram>& program,
                                            std::vector<Argument> arguments, ipu_model::ReplicaGroup* group,
                                            std::uint64_t run_id, Results* results, LinkRound* round) {
  results->done = std::make_shared<Completion>();
  // The caller may change borrowed memory after the call, before the run has read it.
  for (const Argument& argument : arguments) {
    if (argument.array->on_host()) argument.array->host()->Own(pool_);
  }
  results->outputs = MakeOutputs(program->executable(), arguments, results->done);
  // ready() of the outputs is this run's own completion, so the run is given the arrays and must not wait.
  return {[this, program, group, run_id, round, arguments = std::move(arguments),
           outputs = results->outputs] { residency_.Run(program, arguments, outputs, group, run_id, round); },
          results->done, std::this_thread::get_id()};
}

CompletionPtr DeviceRuntime::FetchToHost(const std::shared_ptr<Array>& array) {
  if (!IsReady(array->ready())) RefuseInForkedChild();
  if (!array->on_host()) return Fetch(array, &Residency::Fetch);
  residency_.CountRead(*array);
  return array->ready();
}

CompletionPtr DeviceRuntime::FetchForLinks(const std::shared_ptr<Array>& array) {
  return array->on_host() ? array->ready() : Fetch(array, &Residency::FetchForLinks);
}

CompletionPtr DeviceRuntime::Fetch(const std::shared_ptr<Array>& array, void (Residency::*fetch)(Array&)) {
  if (array->spec().bytes() <= kInlineCopyBytes && IsReady(array->ready())) {
    if (const DeviceHold hold = TryHold(/*run=*/false)) {
      const std::optional<Error> error = Try([&] { (residency_.*fetch)(*array); });
      return error ? Completion::Failed(*error) : nullptr;
    }
  }
  auto done = std::make_shared<Completion>();
  Enqueue({[this, array, fetch] { (residency_.*fetch)(*array); }, done, {}});
  return done;
}

}  // namespace jax_ipu
