// How a run is told to end early.
#ifndef IPU_MODEL_ENGINE_RUN_CANCELLATION_H_
#define IPU_MODEL_ENGINE_RUN_CANCELLATION_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>

#include "ipu_model/Model.hpp"

namespace ipu_model {

// Asked by the thread that runs a program, at every superstep.
class Cancellation {
 public:
  Cancellation() = default;
  // `cancelled`: null for never. `poll`: may be empty.
  Cancellation(const std::atomic<bool>* cancelled, std::function<void()> poll)
      : cancelled_(cancelled != nullptr ? cancelled : &Never()), poll_(std::move(poll)) {}

  // One load and a branch that is never taken. Throws RunCancelled.
  void Check() const {
    if (cancelled_->load(std::memory_order_relaxed)) throw RunCancelled("the run was cancelled");
  }
  // In loops: calls `poll` in one of 64 trips.
  void CountTrip() {
    if (++trips_ % 64 == 0 && poll_) poll_();
  }
  // For loops that count their trips themselves.
  void Poll() const {
    Check();
    if (poll_) poll_();
  }

 private:
  static const std::atomic<bool>& Never() {
    static const std::atomic<bool> never{false};
    return never;
  }

  const std::atomic<bool>* cancelled_ = &Never();
  std::function<void()> poll_;
  std::uint32_t trips_ = 0;
};

}  // namespace ipu_model

#endif  // IPU_MODEL_ENGINE_RUN_CANCELLATION_H_
