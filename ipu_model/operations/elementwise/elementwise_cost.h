// Cycles of elementwise vertices and fills, from PopLibs' cycle tables (lib/popops/popopsCycleEstimators).
#ifndef IPU_MODEL_OPERATIONS_ELEMENTWISE_ELEMENTWISE_COST_H_
#define IPU_MODEL_OPERATIONS_ELEMENTWISE_ELEMENTWISE_COST_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/target_model.h"
#include "kernels/elementwise/expression.h"

namespace ipu_model {

// The cost of an elementwise program: the vertex that PopLibs has for one operation or for a scaled addition,
// otherwise the codelet that it would generate.
class ElementwiseCost {
 public:
  // scalar_inputs: which inputs are the same for all elements; none if it is shorter. in_place: whether a
  // result is stored over an input.
  explicit ElementwiseCost(const Expression& expression, const std::vector<bool>& scalar_inputs = {},
                           bool in_place = false);
  // Cycles of one vertex on `elements` elements, all six workers together.
  std::uint64_t Cycles(const TargetModel& target, std::int64_t elements) const;
  // Bytes of the generated codelet: its loop body, plus entry and exit.
  std::uint64_t CodeBytes(const TargetModel& target) const;
  // Returns the operand type if the expression is one addition, multiplication, maximum or minimum of floats
  // that the data path supports; otherwise kPred. PopLibs has reduction codelets in assembly for these.
  DType vector_type() const { return vector_type_; }
  static std::size_t OperandCount(ScalarOp op);
  bool is_sum() const { return expression_.code.size() == 1 && expression_.code[0].op == ScalarOp::kAdd; }

 private:
  // Cycles of one worker outside of its loop, of the supervisor, and of one iteration over `elements`.
  struct Worker {
    int entry, launch;
    double loop_cycles;
    int elements;
  };
  Worker Single(const TargetModel& target) const;
  Worker Generated(const TargetModel& target) const;
  bool IsScaledAdd() const;
  std::vector<int> FusedProducts() const;

  Expression expression_;
  std::vector<bool> scalars_;  // inputs and constants: whether one value is used for all elements
  std::vector<bool> uniform_;  // the same for all registers
  bool in_place_;
  DType vector_type_ = DType::kPred;
};

// A vertex that writes `bytes`.
std::uint64_t FillCycles(const TargetModel& target, std::int64_t bytes);
// A vertex that writes `bytes` of indices.
std::uint64_t IotaCycles(const TargetModel& target, std::int64_t bytes);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_ELEMENTWISE_ELEMENTWISE_COST_H_
