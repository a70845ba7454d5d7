// Cycles of elementwise and reduction vertices, from PopLibs' cycle tables (popopsCycleEstimators).
#ifndef IPU_MODEL_OPERATIONS_ELEMENTWISE_ELEMENTWISE_COST_H_
#define IPU_MODEL_OPERATIONS_ELEMENTWISE_ELEMENTWISE_COST_H_

#include <array>
#include <cstdint>

#include "core/target_model.h"
#include "kernels/elementwise/expression.h"

namespace ipu_model {

// A fused expression costs the sum of its operations; a product that only feeds a sum is one operation with
// it.
class ElementwiseCost {
 public:
  explicit ElementwiseCost(const Expression& expression);
  // One vertex on `elements` elements, six workers together.
  std::uint64_t Cycles(const TargetModel& target, std::int64_t elements) const;
  // Of the generated codelet: its loop body, plus entry and exit.
  std::uint64_t CodeBytes(const TargetModel& target) const;
  // The type of the operand when the expression is one addition, multiplication, maximum or minimum of floats
  // that the data path has: PopLibs' reduction codelets take one vector of those a cycle. Else kPred.
  DType vector_type() const { return vector_type_; }

 private:
  // Worker cycles for every 1, 2, 4, 8 elements.
  std::array<double, 4> cycles_{};
  std::int64_t operations_ = 0;
  DType vector_type_ = DType::kPred;
};

// A vertex that writes `bytes`.
std::uint64_t FillCycles(const TargetModel& target, std::int64_t bytes);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_ELEMENTWISE_ELEMENTWISE_COST_H_
