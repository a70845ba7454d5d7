// Tile cycles of reduce_window, cumulative operations and select_and_scatter.
#ifndef IPU_MODEL_OPERATIONS_WINDOW_WINDOW_COST_H_
#define IPU_MODEL_OPERATIONS_WINDOW_WINDOW_COST_H_

#include <cstdint>

#include "core/target_model.h"
#include "operations/elementwise/elementwise_cost.h"

namespace ipu_model {

// reduce_window: a vertex that combines `values` elements of windows into `results`.
std::uint64_t WindowCycles(const TargetModel& target, const ElementwiseCost& combiner, std::int64_t values,
                           std::int64_t results);

// Cumulative operations: a vertex that scans `elements`. The workers scan shares of the elements, then
// combine what stands before each share with it.
std::uint64_t ScanCycles(const TargetModel& target, const ElementwiseCost& combiner, std::int64_t elements);

// select_and_scatter: a vertex that writes `results` elements, after it selected in `windows` windows of
// `taps` elements each.
std::uint64_t SelectAndScatterCycles(const TargetModel& target, const ElementwiseCost& select,
                                     const ElementwiseCost& scatter, std::int64_t windows, std::int64_t taps,
                                     std::int64_t results);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_WINDOW_WINDOW_COST_H_
