#include "kernels/elementwise/program/micro_division.h"

#include <cstdint>
#include <cstring>
#include <optional>

#include "hlo/ConstantDivision.hpp"

namespace ipu_model {
namespace {

RegisterType UnsignedOf(RegisterType type) {
  switch (type) {
    case RegisterType::kS8:
      return RegisterType::kU8;
    case RegisterType::kS16:
      return RegisterType::kU16;
    case RegisterType::kS32:
      return RegisterType::kU32;
    case RegisterType::kS64:
      return RegisterType::kU64;
    default:
      return type;
  }
}

class Division {
 public:
  Division(MicroGraph& graph, DType type, const hlo::ConstantDivision& division)
      : graph_(graph), type_(type), d_(division) {}

  int Quotient(int x) {
    const RegisterType type = RegisterTypeOf(type_), magnitudes = UnsignedOf(type);
    if (!d_.isSigned) return Shifted(Upper(magnitudes, x), magnitudes);
    const int sign = Binary(ScalarOp::kShiftRightArithmetic, type, x, Constant(d_.bits - 1));
    if (d_.multiplier == 0 && !d_.negative) {
      // Rounded towards zero: 2^shift - 1 is added to a negative number first.
      const int bias = Binary(ScalarOp::kAnd, type, sign, Constant(d_.divisor - 1));
      const int biased = Binary(ScalarOp::kAdd, type, x, bias);
      return Binary(ScalarOp::kShiftRightArithmetic, type, biased, Constant(d_.shift));
    }
    const int magnitude = Renamed(Unary(ScalarOp::kAbs, type, x), type, magnitudes);
    const int quotient = Renamed(Shifted(Upper(magnitudes, magnitude), magnitudes), magnitudes, type);
    const int flipped = Binary(ScalarOp::kXor, type, quotient, sign);
    return d_.negative ? Binary(ScalarOp::kSubtract, type, sign, flipped)
                       : Binary(ScalarOp::kSubtract, type, flipped, sign);
  }

  int Remainder(int x, int divisor) {
    const RegisterType type = RegisterTypeOf(type_);
    if (d_.multiplier == 0 && !d_.isSigned) return Binary(ScalarOp::kAnd, type, x, Constant(d_.divisor - 1));
    const int whole = Binary(ScalarOp::kMultiply, type, Quotient(x), divisor);
    return Binary(ScalarOp::kSubtract, type, x, whole);
  }

 private:
  int Constant(std::uint64_t value) {
    unsigned char bytes[16] = {};
    std::memcpy(bytes, &value, sizeof(value));
    return graph_.AddConstant(type_, bytes);
  }
  int Add(MicroNode node, RegisterType type, RegisterType result) {
    node.type = type;
    node.result = result;
    return graph_.Add(node);
  }
  int Unary(ScalarOp op, RegisterType type, int a) {
    MicroNode node;
    node.code = Code(op);
    node.operand[0] = a;
    node.num_operands = 1;
    node.immediate = d_.bits;
    node.function = BestFunctions().arithmetic(op, type);
    return Add(node, type, type);
  }
  int Binary(ScalarOp op, RegisterType type, int a, int b) {
    MicroNode node;
    node.code = Code(op);
    node.operand[0] = a;
    node.operand[1] = b;
    node.num_operands = 2;
    node.immediate = d_.bits;
    const MicroFunctions& f = BestFunctions();
    node.function = f.arithmetic(op, type);
    if (node.function == nullptr) node.function = f.integer(op, type);
    return Add(node, type, type);
  }
  // The same bits as another type.
  int Renamed(int x, RegisterType from, RegisterType to) {
    MicroNode node;
    node.code = Code(ScalarOp::kConvert);
    node.operand[0] = x;
    node.num_operands = 1;
    node.function = BestFunctions().convert(from, to);
    return Add(node, from, to);
  }
  int Upper(RegisterType type, int magnitude) {
    if (d_.multiplier == 0) return magnitude;
    const int upper = graph_.AddFused(FusedOp::kMultiplyUpper, type, type, magnitude, d_.increments ? 1 : 0);
    MicroNode& node = graph_.nodes[MicroGraph::Index(upper)];
    node.operand[1] = Constant(d_.multiplier);
    node.num_operands = 2;
    return upper;
  }
  int Shifted(int x, RegisterType type) {
    return d_.shift == 0 ? x : Binary(ScalarOp::kShiftRightLogical, type, x, Constant(d_.shift));
  }

  MicroGraph& graph_;
  DType type_;
  hlo::ConstantDivision d_;
};

}  // namespace

int LowerDivision(MicroGraph& graph, const Instruction& instruction, int dividend, int divisor) {
  std::uint64_t bits = 0;
  if (!graph.ConstantInteger(divisor, &bits)) return -1;
  const auto division = hlo::constantDivision(instruction.operand_type, bits);
  if (!division.has_value()) return -1;
  Division lowering(graph, instruction.operand_type, *division);
  return instruction.op == ScalarOp::kDivide ? lowering.Quotient(dividend)
                                             : lowering.Remainder(dividend, divisor);
}

}  // namespace ipu_model
