// Whether the callers of a program wait for its results at once.
#ifndef JAX_IPU_RUNTIME_DEVICE_WAIT_HABIT_H_
#define JAX_IPU_RUNTIME_DEVICE_WAIT_HABIT_H_

#include <atomic>

namespace jax_ipu {

// Such a caller loses nothing when the program runs on the calling thread instead of the device's. Only
// queued runs show whether a caller waits, so a run is queued now and then even when the habit is
// established.
class WaitHabit {
 public:
  // A queued run has ended; `waited`: its caller waited at once. Called by one thread at a time.
  void Observe(bool waited) {
    in_a_row_ = waited ? in_a_row_ + 1 : 0;
    trusted_runs_.store(in_a_row_ >= kConvincing ? kTrustedRuns : 0, std::memory_order_relaxed);
  }
  bool expected() const { return trusted_runs_.load(std::memory_order_relaxed) > 0; }
  // A run on the calling thread relied on the habit.
  void Trust() { trusted_runs_.fetch_sub(1, std::memory_order_relaxed); }

 private:
  static constexpr int kConvincing = 2, kTrustedRuns = 31;
  int in_a_row_ = 0;
  std::atomic<int> trusted_runs_{0};
};

}  // namespace jax_ipu

#endif  // JAX_IPU_RUNTIME_DEVICE_WAIT_HABIT_H_
