// What a run of the main program did, in program order, from what the executable knows: for traces. Poplar's
// equivalent: the execution profile (Engine::getProfile), which needs an instrumented program.
#ifndef IPU_MODEL_TIMELINE_HPP
#define IPU_MODEL_TIMELINE_HPP

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "ipu_model/Model.hpp"

namespace ipu_model {

// How often a loop whose trip count is known at run time only was entered in one run, and its trips together.
struct LoopRun {
  std::uint64_t entries = 0, trips = 0;
};

// A superstep of an operation, of one execution.
struct SuperstepCost {
  Cycles cycles;
  std::uint64_t exchange_bytes = 0, link_bytes = 0;
  template <typename Self, typename Visitor>
  static void Fields(Self& self, Visitor& visit) {
    visit("cycles", self.cycles);
    visit("exchange_bytes", self.exchange_bytes);
    visit("link_bytes", self.link_bytes);
  }
};

// Of the last run, which was one of program 0: an entry for each of Report::loops.
std::vector<LoopRun> LastRunLoops(const poplar::Engine& engine);

// The steps of a run of a main program. Conditionals have their most expensive branch, as in the report,
// whichever was taken. Immutable and thread safe.
class Timeline {
 public:
  enum class Kind {
    kOperation,
    kDecision,   // of a loop, a conditional or an abort: the predicate goes to all tiles
    kOther,      // loops of branches that the report does not count, together
    kStreamIn,   // from the host
    kStreamOut,  // to the host
    kHostCall,
    kLoopBegin,
    kLoopEnd,
    kScopeBegin,  // of a sequence with a name
    kScopeEnd,
  };
  // One step, or several executions of it that a long loop is shown as.
  struct Step {
    Kind kind;
    std::uint64_t executions = 1;  // of a loop: its trips
    Cycles cycles;                 // on the device, of all executions
    std::size_t operation = 0;     // index into Report::operations
    std::string_view
        name;  // of other steps: of the stream, the host function, the loop, the scope; may be empty
    std::uint64_t bytes = 0;        // over the host link
    std::uint64_t host_cycles = 0;  // that the device waits for the host; not part of `cycles`
    // A transfer: goes on beside the steps after it, up to the next one for which this holds as well.
    bool uses_io_tiles = false;
    bool is_block = false;   // of a scope: a poplar::program::Block
    std::uint32_t tile = 0;  // of a transfer: that holds its first element
  };

  virtual ~Timeline() = default;

  virtual const Report& report() const = 0;
  // Bytes of the operands and results of one execution of an operation.
  virtual std::uint64_t bytes_accessed(std::size_t operation) const = 0;

  // Calls `visit` for each step. `loops`: of LastRunLoops. Loops with more than `most_steps` steps are
  // folded: each step of the body comes once, with the executions of all trips. The sum of the steps' cycles
  // is LastRunCycles. Returns false when there are more than `most_steps_of_run` steps: the others are left
  // out.
  virtual bool Visit(const std::vector<LoopRun>& loops, std::uint64_t most_steps,
                     std::uint64_t most_steps_of_run,
                     const std::function<void(const Step&)>& visit) const = 0;

  // The supersteps of an operation that has several, in their order; empty for others. The first call plans
  // the program again, unless it was compiled for a profile.
  virtual const std::vector<SuperstepCost>& supersteps(std::size_t operation) const = 0;
};

std::shared_ptr<const Timeline> MakeTimeline(const poplar::Executable& executable, unsigned main = 0);

}  // namespace ipu_model

#endif  // IPU_MODEL_TIMELINE_HPP
