// Cycles of elementwise vertices, from PopLibs' cycle tables (lib/popops/popopsCycleEstimators).
#ifndef IPU_MODEL_OPERATIONS_ELEMENTWISE_ELEMENTWISE_COST_H_
#define IPU_MODEL_OPERATIONS_ELEMENTWISE_ELEMENTWISE_COST_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/target/target_model.h"
#include "kernels/elementwise/program/expression.h"
#include "operations/elementwise/operation_cost.h"

namespace ipu_model {

// The cost of an elementwise program: the vertex that PopLibs has for one operation or for a scaled addition,
// otherwise the codelet that it would generate.
class ElementwiseCost {
 public:
  // scalar_inputs: which inputs are the same for all elements; none if it is shorter. in_place: whether a
  // result is stored over an input. repeats: for each input, along which dimensions it repeats, from the
  // outermost dimension in memory of the results to the innermost; none if it is empty.
  explicit ElementwiseCost(const Expression& expression, const std::vector<bool>& scalar_inputs = {},
                           bool in_place = false, const std::vector<std::vector<bool>>& repeats = {});
  // Cycles of one vertex on `elements` elements, all six workers together, if no input repeats.
  std::uint64_t Cycles(const TargetModel& target, std::int64_t elements) const;
  // The same on elements with these extents, in the order of the dimensions of `repeats`.
  std::uint64_t Cycles(const TargetModel& target, const std::vector<std::int64_t>& extents) const;
  // The same on several boxes of a tile, which are one vertex, or a vertex for each worker.
  std::uint64_t CyclesOfParts(const TargetModel& target,
                              const std::vector<std::vector<std::int64_t>>& extents) const;
  // Whether the extents matter beside the number of elements.
  bool repeats() const { return !repeats_.empty() && expression_.code.size() == 1; }
  // Bytes of the generated codelet: its loop body, plus entry and exit.
  std::uint64_t CodeBytes(const TargetModel& target) const;
  // Returns the operand type if the expression is one addition, multiplication, maximum or minimum of floats
  // that the data path supports; otherwise kPred. PopLibs has reduction codelets in assembly for these.
  DType vector_type() const { return vector_type_; }
  bool is_sum() const { return expression_.code.size() == 1 && expression_.code[0].op == ScalarOp::kAdd; }
  // Whether it is one addition or multiplication, which rounds.
  bool is_rounded() const {
    return is_sum() || (expression_.code.size() == 1 && expression_.code[0].op == ScalarOp::kMultiply);
  }

 private:
  // Cycles of one worker outside of its loop, of the supervisor, and the loop.
  struct Worker {
    int entry, launch;
    LoopCost loop;
  };
  Worker Single(const TargetModel& target, bool scalar) const;
  Worker Generated(const TargetModel& target) const;
  // A trip of the loop of a generated codelet over `width` elements, without its control.
  int TripCycles(const TargetModel& target, int width) const;
  std::uint64_t Cycles(const TargetModel& target, const Worker& worker, std::int64_t elements) const;
  std::vector<int> FusedProducts() const;
  // The operands of the only operation that may repeat, the first one to try first.
  std::vector<std::uint16_t> Repeated() const;

  Expression expression_;
  std::vector<bool> scalars_;  // inputs and constants: whether one value is used for all elements
  std::vector<bool> uniform_;  // the same for all registers
  std::vector<std::vector<bool>> repeats_;
  bool in_place_;
  DType vector_type_ = DType::kPred;
};

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_ELEMENTWISE_ELEMENTWISE_COST_H_
