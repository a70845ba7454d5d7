// One IPU: an in-order queue of runs and copies, and the thread that executes it, on top of the device's
// residency.
#ifndef JAX_IPU_RUNTIME_DEVICE_DEVICE_RUNTIME_H_
#define JAX_IPU_RUNTIME_DEVICE_DEVICE_RUNTIME_H_

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/device/residency.h"

namespace jax_ipu {

// Thread safe. Work runs in the order of the calls. When the device is idle, small work runs on the calling
// thread, which saves two thread switches; the result is then ready when the call returns. So does longer
// work of a program whose callers wait at once (WaitHabit), if the process has no other device that the
// caller could use meanwhile.
class DeviceRuntime {
 public:
  DeviceRuntime(const DeviceConfig& config, EngineFactory factory, std::shared_ptr<HostPool> pool,
                int device_id = 0, bool is_only_device = true,
                std::shared_ptr<DeviceUsage> usage = std::make_shared<DeviceUsage>(), Linker linker = {})
      : pool_(pool),
        residency_(config, std::move(factory), std::move(pool), device_id, cancellation_, std::move(usage),
                   std::move(linker)),
        is_only_device_(is_only_device) {}
  ~DeviceRuntime() { Shutdown(); }
  DeviceRuntime(const DeviceRuntime&) = delete;
  DeviceRuntime& operator=(const DeviceRuntime&) = delete;

  struct Results {
    ArrayList outputs;
    CompletionPtr done;  // of the run, also when there are no outputs
  };
  // Arguments match the executable's inputs in number and type. Throws only when output memory cannot be had;
  // errors of the run arrive in the outputs' ready().
  // `run_id`: for traces; 0: a new one.
  Results Execute(const std::shared_ptr<LoadedProgram>& program, std::vector<Argument> arguments,
                  std::uint64_t run_id = 0);

  // For runs in which other devices take part: returns the run as work for this device's queue. `group` and
  // `round` must outlive the work.
  struct Work {
    std::function<void()> run;
    CompletionPtr done;
    std::thread::id caller{};  // who queued the run; copies, which have none, cannot be cancelled
    bool cancelled = false;
  };
  Work MakeWork(const std::shared_ptr<LoadedProgram>& program, std::vector<Argument> arguments,
                ipu_model::ReplicaGroup* group, std::uint64_t run_id, Results* results,
                LinkRound* round = nullptr);
  // Queues the work. Returns false and leaves `work` unchanged if the device has been shut down.
  bool TryEnqueue(Work& work);
  // Queues the work, or does it on this thread when the device has been shut down.
  void Enqueue(Work work);

  // Returns a completion. When it is ready without an error, array->on_host() is true.
  CompletionPtr FetchToHost(const std::shared_ptr<Array>& array);
  // The same for a copy to another IPU, which does not cross the host link.
  CompletionPtr FetchForLinks(const std::shared_ptr<Array>& array);
  // Shared with copies between IPUs, which may end after the device is gone.
  const std::shared_ptr<DeviceUsage>& usage() const { return residency_.usage(); }
  // Of memory that arrays borrow and their copies need for longer.
  const std::shared_ptr<HostPool>& pool() const { return pool_; }

  // Finishes all queued work and ends the thread. Later calls still work, each on its caller's thread.
  void Shutdown();

  // Waits for all work that was queued before the call. A signal handler that raises meanwhile (Ctrl-C)
  // cancels the runs that this thread queued.
  void Finish();

  // Ends the runs that `caller` has queued with Error(kCancelled): the one that is running at its next
  // superstep, the others when their turn comes.
  void Cancel(std::thread::id caller);
  const DeviceConfig& config() const { return residency_.config(); }
  int device_id() const { return residency_.device_id(); }
  // Waits for all work that was queued before the call, and includes it.
  Counters counters();
  std::uint64_t bytes_in_use() const { return residency_.bytes_in_use(); }
  std::uint64_t peak_bytes_in_use() const { return residency_.peak_bytes_in_use(); }

 private:
  // While held, this thread is the only one that touches residency_.
  class DeviceHold {
   public:
    explicit DeviceHold(DeviceRuntime* runtime) : runtime_(runtime) {}
    DeviceHold(DeviceHold&& other) noexcept : runtime_(other.runtime_) { other.runtime_ = nullptr; }
    ~DeviceHold() { Release(); }
    void Release();
    explicit operator bool() const { return runtime_ != nullptr; }

   private:
    DeviceRuntime* runtime_;
  };

  bool IsIdle();
  // Tries to hold the device for work on this thread. `run`: the work is a run, which may be cancelled.
  DeviceHold TryHold(bool run);
  // Makes this thread the holder of the device, for `work`. Requires that mutex_ is locked.
  void Hold(const Work& work);
  void PollWhileInline();
  void WorkLoop();
  CompletionPtr Fetch(const std::shared_ptr<Array>& array, void (Residency::*fetch)(Array&));
  static void Do(Work work, DeviceHold hold);
  ArrayList MakeOutputs(const std::shared_ptr<const Executable>& executable,
                        const std::vector<Argument>& arguments, const CompletionPtr& done) const;

  const std::shared_ptr<HostPool> pool_;
  Cancellation cancellation_;  // of the work that holds the device
  Residency residency_;
  const bool is_only_device_;  // of this process

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> queue_;
  bool held_ = false;
  std::thread::id holder_;                           // of the device, while it is held
  std::thread::id caller_;                           // who queued the run that holds the device
  std::chrono::steady_clock::time_point next_poll_;  // of the thread that holds the device
  bool stopped_ = false;
  std::thread thread_;  // started when the first work is queued
};

}  // namespace jax_ipu

#endif  // JAX_IPU_RUNTIME_DEVICE_DEVICE_RUNTIME_H_
