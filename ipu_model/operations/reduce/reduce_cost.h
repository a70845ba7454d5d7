// Tile cycles of reductions.
#ifndef IPU_MODEL_OPERATIONS_REDUCE_REDUCE_COST_H_
#define IPU_MODEL_OPERATIONS_REDUCE_REDUCE_COST_H_

#include <cstdint>

#include "core/target_model.h"
#include "operations/elementwise/elementwise_cost.h"

namespace ipu_model {

// A vertex that combines `values` elements into `results`: one pass over the values with the combiner, at the
// rate of PopLibs' reduction codelets where there is one (popops ReductionPlan: one vector a cycle).
std::uint64_t ReduceCycles(const TargetModel& target, const ElementwiseCost& combiner, std::int64_t values,
                           std::int64_t results);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_REDUCE_REDUCE_COST_H_
