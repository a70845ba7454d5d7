// A scalar program in SSA form, which describes elementwise operations, reduction bodies, sort comparators
// and scatter bodies. Plain declarations: kernels include this header as well. Poplar's equivalent:
// popops::expr::Expr (popops/Expr.hpp), which has one result and fewer operations.
#ifndef HLO_EXPRESSION_HPP
#define HLO_EXPRESSION_HPP

#include <cstdint>
#include <vector>

#include "ipu_model/Types.hpp"

namespace hlo {

using ipu_model::DType;

// Scalar operations with the semantics of the StableHLO specification. Written to executables: append only.
// Operands and result share a type except where noted. On kPred: And/Or/Not/Xor are logical.
enum class ScalarOp : std::uint16_t {
  // one operand
  kAbs = 0,  // complex -> real
  kNegate,
  kSign,
  kNot,
  kPopcnt,
  kClz,
  kCeil,
  kFloor,
  kRoundNearestAfz,
  kRoundNearestEven,
  kTrunc,
  kCbrt,
  kCos,
  kSin,
  kTan,
  kTanh,
  kExp,
  kExpm1,
  kLog,
  kLog1p,
  kLogistic,
  kSqrt,
  kRsqrt,
  kErf,
  kSquare,
  kInverse,
  kIsFinite,  // -> kPred
  kReal,
  kImag,     // complex -> real
  kConvert,  // -> Instruction::result, StableHLO convert semantics as XLA:CPU (saturating float to integer,
             // NaN -> 0)
  kBitcast,  // same width
  kReducePrecision,  // Instruction::immediate = exponent bits << 8 | mantissa bits
  // two operands
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kRemainder,
  kPower,
  kAtan2,
  kMaximum,
  kMinimum,
  kAnd,
  kOr,
  kXor,
  kShiftLeft,
  kShiftRightLogical,
  kShiftRightArithmetic,
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,       // -> kPred
  kTotalLt,  // IEEE total order on floats (-NaN < -Inf < ... < -0 < +0 < ... < NaN) -> kPred
  kComplex,  // real, imag -> complex
  kNextAfter,
  // three operands
  kSelect,  // kPred, on_true, on_false
  kClamp,   // min, operand, max
  kFma,     // a * b + c, one rounding; made by the kernel's own peephole, never by the compiler
  kCount
};

struct Instruction {
  ScalarOp op = ScalarOp::kAdd;
  DType operand_type = DType::kF32;  // type of the first value operand (of the branches for kSelect)
  DType result_type = DType::kF32;
  std::uint16_t operand[3] = {0, 0, 0};  // register numbers
  std::uint32_t immediate = 0;
};

// A scalar constant: the element's bytes in host representation, low bytes first, rest zero.
struct ScalarConstant {
  DType type = DType::kF32;
  alignas(16) unsigned char bytes[16] = {};
};

// Registers are numbered: inputs, then constants, then one per instruction in order.
struct Expression {
  std::vector<DType> inputs;
  std::vector<ScalarConstant> constants;
  std::vector<Instruction> code;
  std::vector<std::uint16_t> outputs;

  DType TypeOf(std::uint16_t reg) const {
    if (reg < inputs.size()) return inputs[reg];
    reg = static_cast<std::uint16_t>(reg - inputs.size());
    if (reg < constants.size()) return constants[reg].type;
    return code[reg - constants.size()].result_type;
  }
};

}  // namespace hlo

#endif  // HLO_EXPRESSION_HPP
