#include "core/deadline.h"

#include <algorithm>

namespace ipu_model {
namespace {

thread_local const Deadline* of_thread = nullptr;

}  // namespace

Deadline::Deadline(double seconds) : outer_(of_thread), when_(std::chrono::steady_clock::now()) {
  constexpr double kLongest = 1e9;  // seconds; what is longer might not fit the clock
  when_ += std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(std::clamp(seconds, 0.0, kLongest)));
  if (outer_ != nullptr) when_ = std::min(when_, outer_->when());
  of_thread = this;
}

Deadline::~Deadline() { of_thread = outer_; }

void CheckDeadline() {
  if (of_thread != nullptr && std::chrono::steady_clock::now() >= of_thread->when()) throw OutOfTime();
}

const Deadline* DeadlineOfThread() { return of_thread; }

HelpersDeadline::HelpersDeadline(const Deadline* deadline) : own_(of_thread) { of_thread = deadline; }
HelpersDeadline::~HelpersDeadline() { of_thread = own_; }

}  // namespace ipu_model
