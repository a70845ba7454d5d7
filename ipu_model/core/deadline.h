// The deadline of a thread; see ipu_model::Deadline. Loops that may run long call CheckDeadline.
#ifndef IPU_MODEL_CORE_DEADLINE_H_
#define IPU_MODEL_CORE_DEADLINE_H_

#include <cstddef>

#include "ipu_model/Model.hpp"

namespace ipu_model {

// Null for none.
const Deadline* DeadlineOfThread();

// Gives the thread the deadline of another one that it helps.
class HelpersDeadline {
 public:
  explicit HelpersDeadline(const Deadline* deadline);
  HelpersDeadline(const HelpersDeadline&) = delete;
  HelpersDeadline& operator=(const HelpersDeadline&) = delete;
  ~HelpersDeadline();

 private:
  const Deadline* const own_;
};

// In trip `i` of a loop with short trips.
inline void CheckDeadlineAt(std::size_t i) {
  if (i % 256 == 0) CheckDeadline();
}

}  // namespace ipu_model

#endif  // IPU_MODEL_CORE_DEADLINE_H_
