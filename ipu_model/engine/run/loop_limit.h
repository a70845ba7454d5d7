// Ends a loop that does not end by itself.
#ifndef IPU_MODEL_ENGINE_RUN_LOOP_LIMIT_H_
#define IPU_MODEL_ENGINE_RUN_LOOP_LIMIT_H_

#include <chrono>
#include <cstdint>
#include <vector>

#include "core/program/program_node.h"
#include "engine/run/executed_cycles.h"

namespace ipu_model {

// Asked in the trips of RepeatWhileTrue and RepeatWhileFalse loops, by the thread that runs them.
class LoopLimit {
 public:
  // `loops` and `cycles` are those of the engine; the former are numbered as in the latter.
  LoopLimit(const std::vector<const ProgramNode*>& loops, ExecutedCycles* cycles)
      : loops_(loops), cycles_(cycles) {}

  // Of the runs from now on, in seconds of processor time; 0 for none.
  void Set(double seconds) { seconds_ = seconds; }
  // A run begins.
  void Start();
  // Throws poplar::runtime_error if a loop makes trips for longer than the limit since it was entered.
  void Check() {
    if (seconds_ > 0 && std::chrono::steady_clock::now() >= next_look_) Look();
  }

 private:
  struct Seen {
    std::uint64_t entries = 0, trips = 0;
    double since = 0;  // the processor time of this thread when the entry was first seen
  };
  void Look();

  const std::vector<const ProgramNode*>& loops_;
  ExecutedCycles* cycles_;
  double seconds_ = 0;
  // When to read the processor time next: reading it in each trip would take longer than a small trip.
  std::chrono::steady_clock::time_point next_look_;
  std::vector<Seen> seen_;
};

}  // namespace ipu_model

#endif  // IPU_MODEL_ENGINE_RUN_LOOP_LIMIT_H_
