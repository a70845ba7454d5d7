// Cycles of one run, with the actual trip counts of its loops.
#ifndef IPU_MODEL_ENGINE_RUN_EXECUTED_CYCLES_H_
#define IPU_MODEL_ENGINE_RUN_EXECUTED_CYCLES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "core/program/cycle_stamp.h"
#include "engine/program/compiled_program.h"
#include "ipu_model/Timeline.hpp"

namespace ipu_model {

// The report counts the condition and the body of a loop with an unknown trip count once each. This class
// counts the actual executions. If and Switch count as in the report: their most expensive branch, whichever
// was taken. Loops inside the taken branch add their further trips.
class ExecutedCycles : public CycleClock {
 public:
  // `loops` are RepeatWhileTrue and RepeatWhileFalse nodes. The engine refers to them by their index.
  ExecutedCycles(std::shared_ptr<const CompiledProgram> program,
                 const std::vector<const ProgramNode*>& loops);

  void Reset();
  // The loop starts. Its condition runs once more than its body.
  void Enter(std::size_t loop) { ++loops_[loop].entries; }
  void Trip(std::size_t loop) { ++loops_[loop].trips; }
  // What Enter and Trip count, for code that does it itself.
  std::uint64_t* entries(std::size_t loop) { return &loops_[loop].entries; }
  std::uint64_t* trips(std::size_t loop) { return &loops_[loop].trips; }
  // Returns the cycles of the program since Reset, if it is a main program; otherwise 0.
  std::uint64_t total(unsigned program) const;
  // Cycles of the main program that runs from Reset to the stamp.
  std::uint64_t Read(const CycleStamp& stamp) override;
  // What the loops did since Reset, in the order of Report::loops of a main program.
  std::vector<LoopRun> runs(unsigned program) const;

 private:
  struct Loop {
    std::uint64_t condition = 0, body = 0;  // in cycles; 0 if no main program runs this loop
    std::uint64_t entries = 0, trips = 0;
  };
  // What the loops add to the cycles of the report.
  std::uint64_t OfLoops() const;

  std::shared_ptr<const CompiledProgram> program_;
  std::vector<Loop> loops_;
  // By main program, for each of Report::loops, its indices in loops_: several if a function with the loop is
  // called repeatedly.
  std::unordered_map<unsigned, std::vector<std::vector<std::size_t>>> of_report_;
  std::unordered_map<const CycleStamp*, std::uint64_t> stamps_;  // how often each has run
};

}  // namespace ipu_model

#endif  // IPU_MODEL_ENGINE_RUN_EXECUTED_CYCLES_H_
