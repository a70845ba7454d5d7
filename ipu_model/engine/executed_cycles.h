// Cycles of one run with the trips that its loops really made.
#ifndef IPU_MODEL_ENGINE_EXECUTED_CYCLES_H_
#define IPU_MODEL_ENGINE_EXECUTED_CYCLES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/compiled_program.h"

namespace ipu_model {

// The report counts the condition and the body of a loop with an unknown trip count once each. This counts
// how often they ran. If and Switch stay as in the report: their dearest branch, whichever was taken; loops
// inside the branch that was taken add their further trips.
class ExecutedCycles {
 public:
  // `loops` are RepeatWhileTrue and RepeatWhileFalse nodes; the engine calls them by their position.
  ExecutedCycles(const CompiledProgram& program, const std::vector<const ProgramNode*>& loops);

  void Reset();
  // The loop starts: its condition runs once more than its body.
  void Enter(std::size_t loop) { ++loops_[loop].entries; }
  void Trip(std::size_t loop) { ++loops_[loop].trips; }
  // Of the main program, since Reset.
  std::uint64_t total() const;

 private:
  struct Loop {
    std::uint64_t condition = 0, body = 0;  // cycles; 0 when the main program does not run this loop
    std::uint64_t entries = 0, trips = 0;
  };
  std::uint64_t reported_;
  std::vector<Loop> loops_;
};

}  // namespace ipu_model

#endif  // IPU_MODEL_ENGINE_EXECUTED_CYCLES_H_
