// For tests: one-line construction of instructions of scalar programs.
#ifndef IPU_MODEL_TESTING_TEST_INSTRUCTIONS_H_
#define IPU_MODEL_TESTING_TEST_INSTRUCTIONS_H_

#include <cstdint>

#include "kernels/elementwise/expression.h"

namespace ipu_model {

// `a`, `b`, `c`: register numbers of the operands, counted from the inputs of the expression.
inline Instruction Op(ScalarOp op, DType type, DType result, std::uint16_t a, std::uint16_t b = 0,
                      std::uint16_t c = 0, std::uint32_t immediate = 0) {
  Instruction i;
  i.op = op;
  i.operand_type = type;
  i.result_type = result;
  i.operand[0] = a;
  i.operand[1] = b;
  i.operand[2] = c;
  i.immediate = immediate;
  return i;
}

}  // namespace ipu_model

#endif  // IPU_MODEL_TESTING_TEST_INSTRUCTIONS_H_
