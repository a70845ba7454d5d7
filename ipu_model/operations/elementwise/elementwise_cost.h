// Cycles of elementwise and reduction vertices, from PopLibs' cycle tables (popopsCycleEstimators).
#ifndef IPU_MODEL_OPERATIONS_ELEMENTWISE_ELEMENTWISE_COST_H_
#define IPU_MODEL_OPERATIONS_ELEMENTWISE_ELEMENTWISE_COST_H_

#include <array>
#include <cstdint>

#include "core/target_model.h"
#include "kernels/elementwise/expression.h"

namespace ipu_model {

// The cost of an elementwise program is the sum of its operations. A product that is used by one sum only
// counts as one operation with that sum.
class ElementwiseCost {
 public:
  explicit ElementwiseCost(const Expression& expression);
  // Cycles of one vertex on `elements` elements, all six workers together.
  std::uint64_t Cycles(const TargetModel& target, std::int64_t elements) const;
  // Bytes of the generated codelet: its loop body, plus entry and exit.
  std::uint64_t CodeBytes(const TargetModel& target) const;
  // Returns the operand type if the expression is one addition, multiplication, maximum or minimum of floats
  // that the data path supports; otherwise kPred. PopLibs' reduction codelets process one vector of such
  // floats per cycle.
  DType vector_type() const { return vector_type_; }

 private:
  // Worker cycles for 1, 2, 4 and 8 elements.
  std::array<double, 4> cycles_{};
  std::int64_t operations_ = 0;
  DType vector_type_ = DType::kPred;
};

// A vertex that writes `bytes`.
std::uint64_t FillCycles(const TargetModel& target, std::int64_t bytes);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_ELEMENTWISE_ELEMENTWISE_COST_H_
