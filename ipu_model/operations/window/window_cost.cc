#include "operations/window/window_cost.h"

#include "operations/reduce/reduce_cost.h"

namespace ipu_model {

std::uint64_t WindowCycles(const TargetModel& target, const ElementwiseCost& combiner, std::int64_t values,
                           std::int64_t results) {
  return ReduceCycles(target, combiner, values, results, /*contiguous=*/false);
}

std::uint64_t ScanCycles(const TargetModel& target, const ElementwiseCost& combiner, std::int64_t elements) {
  return 2 * combiner.Cycles(target, elements);
}

std::uint64_t SelectAndScatterCycles(const TargetModel& target, const ElementwiseCost& select,
                                     const ElementwiseCost& scatter, std::int64_t windows, std::int64_t taps,
                                     std::int64_t results) {
  return ReduceCycles(target, select, windows * taps, windows, /*contiguous=*/false) +
         scatter.Cycles(target, windows) +
         FillCycles(target, results * static_cast<std::int64_t>(sizeof(float)));
}

}  // namespace ipu_model
