// For tests: one-line construction of instructions of scalar programs, and common bodies of reductions.
#ifndef IPU_MODEL_TESTING_TEST_INSTRUCTIONS_H_
#define IPU_MODEL_TESTING_TEST_INSTRUCTIONS_H_

#include <cstdint>

#include "kernels/elementwise/program/expression.h"

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

// One instruction on two values; the result has their type unless another is given.
inline Expression BinaryBody(ScalarOp op, DType type, DType result = DType::kCount) {
  Expression e;
  e.inputs = {type, type};
  e.code = {Op(op, type, result == DType::kCount ? type : result, 0, 1)};
  e.outputs = {2};
  return e;
}

// The body of JAX's argmax and argmin: the better of two values and its place, the smaller place of equal
// values.
inline Expression BestAndPlace(bool largest, DType type) {
  const DType p = DType::kPred, s = DType::kS32;
  Expression e;
  e.inputs = {type, s, type, s};
  e.code = {Op(largest ? ScalarOp::kGt : ScalarOp::kLt, type, p, 0, 2),
            Op(ScalarOp::kNe, type, p, 0, 0),
            Op(ScalarOp::kOr, p, p, 4, 5),
            Op(ScalarOp::kEq, type, p, 0, 2),
            Op(ScalarOp::kLt, s, p, 1, 3),
            Op(ScalarOp::kAnd, p, p, 7, 8),
            Op(ScalarOp::kOr, p, p, 6, 9),
            Op(ScalarOp::kSelect, type, type, 6, 0, 2),
            Op(ScalarOp::kSelect, s, s, 10, 1, 3)};
  e.outputs = {11, 12};
  return e;
}

}  // namespace ipu_model

#endif  // IPU_MODEL_TESTING_TEST_INSTRUCTIONS_H_
