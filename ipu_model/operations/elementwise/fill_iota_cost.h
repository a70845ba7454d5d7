// Cycles of vertices that fill and count.
#ifndef IPU_MODEL_OPERATIONS_ELEMENTWISE_FILL_IOTA_COST_H_
#define IPU_MODEL_OPERATIONS_ELEMENTWISE_FILL_IOTA_COST_H_

#include <cstdint>

#include "core/target/target_model.h"

namespace ipu_model {

// The largest share of `elements` that PopLibs gives to a worker, in grains of `grain` elements, of which a
// worker has two or more (splitRegionsBetweenWorkers with a minimum of two grains).
std::int64_t RegionShare(const TargetModel& target, std::int64_t elements, std::int64_t grain);

// Fill, one for each worker: getFill1DCycleEstimate (lib/popops/PerformanceEstimation.cpp) of the share of
// modelContiguousFill.
std::uint64_t FillCycles(const TargetModel& target, DType type, std::int64_t elements);

// Iota, one for each worker (lib/popops/popopsCycleEstimators.cpp).
std::uint64_t IotaCycles(const TargetModel& target, DType type, std::int64_t elements);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_ELEMENTWISE_FILL_IOTA_COST_H_
