// Cycles of PopLibs' selections and clamps, one vertex for each worker.
#ifndef IPU_MODEL_OPERATIONS_ELEMENTWISE_TERNARY_COST_H_
#define IPU_MODEL_OPERATIONS_ELEMENTWISE_TERNARY_COST_H_

#include <cstdint>

#include "core/target/target_model.h"
#include "kernels/elementwise/program/expression.h"

namespace ipu_model {

// The vertex that PopLibs' ternaryOp chooses (lib/popops/ElementWise.cpp), with the cycles of
// lib/popops/popopsCycleEstimators.cpp. `scalar`: for each operand, whether it is one value for all elements.
//   kSelect: Select, BroadcastSelect (both values are scalars), BroadcastSelectorSelect (a scalar predicate)
//   kClamp:  Clamp, BroadcastClamp
std::uint64_t TernaryCycles(const TargetModel& target, const Instruction& instruction, const bool scalar[3],
                            std::int64_t elements);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_ELEMENTWISE_TERNARY_COST_H_
