#include "operations/reduce/reduce_cost.h"

namespace ipu_model {

std::uint64_t ReduceCycles(const TargetModel& target, const ElementwiseCost& combiner, std::int64_t values,
                           std::int64_t results) {
  // Each result starts a loop of its own: 15 cycles of worker time (PopLibs reduction codelets).
  constexpr std::int64_t kCyclesPerResult = 15;
  const std::int64_t workers = target.worker_contexts;
  const std::int64_t setup = (results + workers - 1) / workers * kCyclesPerResult * workers;
  if (combiner.vector_type() == DType::kPred)
    return combiner.Cycles(target, values) + static_cast<std::uint64_t>(setup);
  const std::int64_t width = target.VectorWidth(combiner.vector_type());
  return static_cast<std::uint64_t>((values + width - 1) / width + setup) + target.vertex_call_cycles +
         target.supervisor_overhead;
}

}  // namespace ipu_model
