// Cycles of one scalar operation in the loop of a worker, from PopLibs' tables.
#ifndef IPU_MODEL_OPERATIONS_ELEMENTWISE_OPERATION_COST_H_
#define IPU_MODEL_OPERATIONS_ELEMENTWISE_OPERATION_COST_H_

#include <cstdint>

#include "core/target/target_model.h"
#include "hlo/ConstantDivision.hpp"
#include "kernels/elementwise/program/expression.h"

namespace ipu_model {

// Worker cycles of one loop iteration, and the number of elements it handles.
struct LoopCost {
  int cycles, elements;
  // Of a loop whose cycles PopLibs divides by the width of a vector (basicOpLoopCycles).
  bool natural = false;
  // Of the whole loop.
  std::int64_t Of(std::int64_t count) const {
    return natural ? cycles * (count + elements - 1) / elements
                   : cycles * ((count + elements - 1) / elements);
  }
};

// Instruction::immediate of a sine, cosine or tangent that PopLibs' vertex computes, which popops asks for.
// Others are computed by the functions of hlo/codelets/scalar.hpp.
constexpr std::uint32_t kOfPopLibs = 1;

bool InFloatUnit(DType type);

// A vertex with this operation alone. `scalar`: one operand of two is the same for all elements. `in_place`:
// the result is stored over an operand.
LoopCost LoopAlone(const Instruction& instruction, bool scalar, bool in_place);

// Whether codelets have a function of their own for it, also as the only operation (hlo/codelets/scalar.hpp).
bool HasOwnCodelet(const Instruction& instruction);

// Cycles in the floating-point unit, or beside the loads and stores for other types, for `width` elements of
// a fused expression.
double UnitCycles(const TargetModel& target, const Instruction& instruction, int width);

// The same without the loads and stores that the loops of some functions contain.
double ArithmeticCycles(const TargetModel& target, const Instruction& instruction, int width);

// As UnitCycles for a quotient or remainder by a constant: the instructions of
// hlo/codelets/scalarDivision.hpp.
double DivisionCycles(const Instruction& instruction, const hlo::ConstantDivision& division, int width);

// All six workers of Cast1D (getCast1DCycleEstimate).
std::uint64_t CastCycles(const TargetModel& target, DType from, DType to, std::int64_t elements);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_ELEMENTWISE_OPERATION_COST_H_
