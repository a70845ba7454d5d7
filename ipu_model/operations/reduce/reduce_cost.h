// Tile cycles of reductions.
#ifndef IPU_MODEL_OPERATIONS_REDUCE_REDUCE_COST_H_
#define IPU_MODEL_OPERATIONS_REDUCE_REDUCE_COST_H_

#include <cstdint>

#include "core/target/target_model.h"
#include "operations/elementwise/elementwise_cost.h"

namespace ipu_model {

// The types of one stage of a reduction: what a vertex reads and what it writes. Sums and products of f16
// values are f32 until the last stage.
struct ReducedTypes {
  DType values, results;
};

// The vertices of one tile that combine `values` elements into `results`, from PopLibs' estimators
// (lib/popops/reduction/CycleEstimationFunctions.cpp). contiguous: whether the values of a result are
// adjacent; otherwise the results are.
std::uint64_t ReduceCycles(const TargetModel& target, const ElementwiseCost& combiner, ReducedTypes types,
                           std::int64_t values, std::int64_t results, bool contiguous);
// The same for a reduction in one stage.
std::uint64_t ReduceCycles(const TargetModel& target, const ElementwiseCost& combiner, std::int64_t values,
                           std::int64_t results, bool contiguous);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_REDUCE_REDUCE_COST_H_
