// Bodies of reductions, scatters and windows that are one operation.
#ifndef HLO_SINGLE_OPERATION_HPP
#define HLO_SINGLE_OPERATION_HPP

#include "hlo/Expression.hpp"
#include "hlo/ScalarOps.hpp"

namespace hlo {

// The operation of a body that has two arguments and computes one operation of both, in either order; null
// for other bodies.
inline const Instruction* SingleOperation(const Expression& body) {
  if (body.inputs.size() != 2 || body.outputs.size() != 1 || body.code.size() != 1 ||
      body.outputs[0] != 2 + body.constants.size())
    return nullptr;
  const Instruction& only = body.code[0];
  const bool both = OperandsOf(only.op) == 2 && only.operand[0] + only.operand[1] == 1;
  return both ? &only : nullptr;
}

}  // namespace hlo

#endif  // HLO_SINGLE_OPERATION_HPP
