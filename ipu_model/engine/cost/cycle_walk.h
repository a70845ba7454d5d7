// The cycles of a program: a walk over its tree, in program order.
#ifndef IPU_MODEL_ENGINE_COST_CYCLE_WALK_H_
#define IPU_MODEL_ENGINE_COST_CYCLE_WALK_H_

#include <cstddef>
#include <cstdint>

#include "engine/cost/tile_memory.h"
#include "ipu_model/Model.hpp"

namespace ipu_model {

// Is told everything that the walk counts.
class CycleObserver {
 public:
  virtual ~CycleObserver() = default;
  virtual void Enter(const ProgramNode& node, std::uint64_t executions) = 0;
  // A superstep of the node's operation, row `row` of Report::operations. `use` is null where nothing is
  // planned.
  virtual void Superstep(std::size_t row, const OperationUse* use, std::size_t step,
                         const Cycles& cycles) = 0;
  // The decision of a loop, a conditional or an abort.
  virtual void Decision(const Cycles& cycles) = 0;
  virtual void Transfer(std::uint64_t bytes) = 0;
  virtual void HostCall() = 0;
  // `counted`: for a conditional, the index of the child whose cycles count.
  virtual void Leave(const Cycles& cycles, std::size_t counted) = 0;
};

// Cycles of `transfers` transfers of a stream, of `bytes` bytes together: over the host link, or over that to
// the streaming memory.
std::uint64_t LinkCycles(const CompiledProgram& program, std::uint32_t stream, std::uint64_t transfers,
                         std::uint64_t bytes);

// Fills in what the report says of program `main`. `uses` is null if nothing is planned: operations then have
// no cycles. `observer` may be null.
void CountCycles(const CompiledProgram& program, const OperationUses* uses, Report* report,
                 CycleObserver* observer = nullptr, unsigned main = 0);

}  // namespace ipu_model

#endif  // IPU_MODEL_ENGINE_COST_CYCLE_WALK_H_
