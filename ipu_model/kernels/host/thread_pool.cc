// The process's one thread pool: workers spin for a short time after a job, then sleep on a futex.
#include <immintrin.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/host/context.h"
#include "kernels/host/host_limits.h"

namespace ipu_model {
namespace {

// A spinning worker starts in 0.1 us, a sleeping one in 20 to 100 us. Longer spinning would starve other
// threads.
constexpr auto kSpinTime = std::chrono::microseconds(65);
constexpr int kPausesPerClockRead = 32;
// A thread that spins and finds that so much time passed between two looks at the clock, which are 2 us
// apart, has lost its CPU to another one. Then the machine has more to run than CPUs: workers sleep at once
// after each of the following jobs, so that the time that they get is for work.
constexpr auto kLostTime = std::chrono::microseconds(200);
constexpr int kJobsWithoutSpinning = 200;

enum State : std::uint32_t { kIdle, kHasJob, kRunning, kSleeping };

void FutexWait(std::atomic<std::uint32_t>& word, std::uint32_t expected) {
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr,
          0);
}
void FutexWake(std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

struct alignas(64) Slot {
  std::atomic<std::uint32_t> state{kIdle};
  std::atomic<int> cpu{-1};  // the CPU on which the worker last ran; `thread` is set before it
  std::atomic<pid_t> thread{0};
};

// fork() copies no workers: the child process runs every job on its calling thread.
std::atomic<bool> workers_exist{true};

class FutexPool final : public ThreadPool {
 public:
  FutexPool() {
    CPU_ZERO(&allowed_);
    size_ = sched_getaffinity(0, sizeof(allowed_), &allowed_) == 0 ? std::max(1, CPU_COUNT(&allowed_)) : 1;
    const int hardware = static_cast<int>(std::thread::hardware_concurrency());
    if (hardware > 0) size_ = std::min(size_, hardware);
    if (const int limit = FinalHostLimits().threads; limit > 0) size_ = limit;
    slots_ = std::vector<Slot>(static_cast<std::size_t>(size_));
    pthread_atfork(nullptr, nullptr, [] { workers_exist.store(false, std::memory_order_relaxed); });
    for (int w = 1; w < size_; ++w) std::thread([this, w] { Work(w); }).detach();
  }

  int size() const override { return size_; }

  void Run(int workers, TaskRef task) override {
    if (workers <= 1 || !workers_exist.load(std::memory_order_relaxed) ||
        busy_.exchange(true, std::memory_order_acquire)) {
      for (int w = 0; w < workers; ++w) task(w);
      return;
    }
    task_ = &task;
    remaining_.store(static_cast<std::uint32_t>(workers - 1), std::memory_order_relaxed);
    const int cpu = sched_getcpu();
    caller_cpu_.store(cpu, std::memory_order_relaxed);
    for (int w = 1; w < workers; ++w) {
      Slot& slot = slots_[static_cast<std::size_t>(w)];
      // The worker is queued on this CPU and cannot leave it until this thread sleeps. Move it away.
      if (cpu >= 0 && slot.cpu.load(std::memory_order_acquire) == cpu) {
        slot.cpu.store(-1, std::memory_order_relaxed);
        KeepFrom(cpu, slot.thread.load(std::memory_order_relaxed));
      }
      if (slot.state.exchange(kHasJob, std::memory_order_acq_rel) == kSleeping) FutexWake(slot.state);
    }
    task(0);
    // Run the parts that no worker has started: other processes may be keeping a worker off its CPU.
    for (int w = 1; w < workers; ++w) {
      std::uint32_t expected = kHasJob;
      auto& state = slots_[static_cast<std::size_t>(w)].state;
      if (!state.compare_exchange_strong(expected, kIdle, std::memory_order_acq_rel)) continue;
      task(w);
      remaining_.fetch_sub(1, std::memory_order_relaxed);
    }
    WaitForWorkers();
    busy_.store(false, std::memory_order_release);
  }

 private:
  void Work(int worker) {
    const FlushDenormals flush;
    Slot& slot = slots_[static_cast<std::size_t>(worker)];
    slot.thread.store(static_cast<pid_t>(syscall(SYS_gettid)), std::memory_order_relaxed);
    auto& state = slot.state;
    for (;;) {
      WaitForJob(slot);
      (*task_)(worker);
      state.store(kIdle, std::memory_order_relaxed);
      if (remaining_.fetch_sub(1, std::memory_order_release) == (kCallerSleeps | 1)) FutexWake(remaining_);
    }
  }

  // Returns when all workers are done: spins for as long as a worker that runs may take, then sleeps, which
  // also lets a worker run that was woken on this CPU.
  void WaitForWorkers() {
    auto begin = std::chrono::steady_clock::now(), last = begin;
    for (;;) {
      for (int i = 0; i < kPausesPerClockRead; ++i) {
        if (remaining_.load(std::memory_order_acquire) == 0) return;
        _mm_pause();
      }
      const auto now = std::chrono::steady_clock::now();
      if (NoteLostTime(now - last) || now - begin > kSpinTime) break;
      last = now;
    }
    std::uint32_t left = remaining_.load(std::memory_order_acquire);
    while (left != 0 &&
           !remaining_.compare_exchange_weak(left, left | kCallerSleeps, std::memory_order_acquire)) {
    }
    while ((left = remaining_.load(std::memory_order_acquire)) != 0 && left != kCallerSleeps)
      FutexWait(remaining_, left);
  }

  // Returns whether the thread had lost its CPU in a time of spinning.
  bool NoteLostTime(std::chrono::steady_clock::duration spun) {
    if (spun < kLostTime) return false;
    jobs_without_spinning_.store(kJobsWithoutSpinning, std::memory_order_relaxed);
    return true;
  }

  // Returns when the worker has taken its part of a job. Until then, the caller may take the part back, even
  // while the worker is waking up.
  void WaitForJob(Slot& slot) {
    auto& state = slot.state;
    for (;;) {
      const int without = jobs_without_spinning_.load(std::memory_order_relaxed);
      if (without > 0) jobs_without_spinning_.store(without - 1, std::memory_order_relaxed);
      auto now = std::chrono::steady_clock::now(), last = now;
      const auto end = without > 0 ? now : now + kSpinTime;
      do {
        slot.cpu.store(sched_getcpu(), std::memory_order_release);
        for (int i = 0; i < kPausesPerClockRead; ++i) {
          std::uint32_t expected = kHasJob;
          if (state.load(std::memory_order_relaxed) == kHasJob &&
              state.compare_exchange_strong(expected, kRunning, std::memory_order_acq_rel)) {
            return;
          }
          _mm_pause();
        }
        last = std::exchange(now, std::chrono::steady_clock::now());
      } while (!NoteLostTime(now - last) && now < end);
      std::uint32_t expected = kIdle;
      if (!state.compare_exchange_strong(expected, kSleeping, std::memory_order_acq_rel)) continue;
      while (state.load(std::memory_order_acquire) == kSleeping) FutexWait(state, kSleeping);
      LeaveCallersCpu();
    }
  }

  // After a long sleep, Linux wakes the worker on the waker's CPU, where the two would share the time.
  void LeaveCallersCpu() const {
    const int caller = caller_cpu_.load(std::memory_order_relaxed);
    if (caller >= 0 && sched_getcpu() == caller) KeepFrom(caller, 0);
  }

  // Excludes `cpu` from the CPUs of `thread`; 0 means the calling thread.
  void KeepFrom(int cpu, pid_t thread) const {
    cpu_set_t others = allowed_;
    CPU_CLR(static_cast<std::size_t>(cpu), &others);
    if (CPU_COUNT(&others) > 0) sched_setaffinity(thread, sizeof(others), &others);
  }

  int size_ = 1;
  cpu_set_t allowed_;
  std::vector<Slot> slots_;
  const TaskRef* task_ = nullptr;
  alignas(64) std::atomic<bool> busy_{false};
  // The workers that are not done, and whether the caller sleeps.
  static constexpr std::uint32_t kCallerSleeps = 1u << 31;
  alignas(64) std::atomic<std::uint32_t> remaining_{0};
  std::atomic<int> jobs_without_spinning_{0};
  std::atomic<int> caller_cpu_{-1};
};

}  // namespace

int CallerPool::size() const { return 1; }
void CallerPool::Run(int workers, TaskRef task) {
  for (int w = 0; w < workers; ++w) task(w);
}

ThreadPool& ThreadPool::Global() {
  // Never destroyed, because device threads may run kernels while the process exits.
  static ThreadPool& pool = *std::make_unique<FutexPool>().release();
  return pool;
}

}  // namespace ipu_model
