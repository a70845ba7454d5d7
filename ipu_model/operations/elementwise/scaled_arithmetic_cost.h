// Cycles of PopLibs' scaled additions, which store over their first operand.
#ifndef IPU_MODEL_OPERATIONS_ELEMENTWISE_SCALED_ARITHMETIC_COST_H_
#define IPU_MODEL_OPERATIONS_ELEMENTWISE_SCALED_ARITHMETIC_COST_H_

#include <cstdint>
#include <vector>

#include "core/target/target_model.h"
#include "kernels/elementwise/program/expression.h"

namespace ipu_model {

enum class ScaledForm {
  kNone,
  kAdd,       // X + b Y: ScaledAddSupervisor
  kSubtract,  // X - b Y: ScaledSubtractSupervisor
  kAxPlusBy,  // a X + b Y, or X - a X + b Y: aXPlusbYSupervisor, XMinusaXPlusbYSupervisor
  kAxMinusBy  // a X - b Y: aXMinusbYSupervisor
};

// `scalars`: for each input and constant, whether it is one value for all elements.
ScaledForm ScaledFormOf(const Expression& expression, const std::vector<bool>& scalars);

// getScaledArithmeticSupervisorCycleEstimate in lib/popops/PerformanceEstimation.cpp.
std::uint64_t ScaledArithmeticCycles(const TargetModel& target, ScaledForm form, DType type,
                                     std::int64_t elements);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_ELEMENTWISE_SCALED_ARITHMETIC_COST_H_
