// Bodies of reductions, scatters and windows that are one operation.
#ifndef HLO_SINGLE_OPERATION_HPP
#define HLO_SINGLE_OPERATION_HPP

#include <cstdint>
#include <optional>

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

// The bits of the element that as one operand of `op` leaves the other unchanged, whatever that is: -0 in
// sums of floats, infinities in their extrema. Of small floats and products of complex numbers (infinities
// become NaN) none is known.
inline std::optional<std::uint64_t> NeutralBits(ScalarOp op, DType type) {
  const auto bytes = static_cast<unsigned>(ipu_model::SizeOf(type));
  const bool sums = op == ScalarOp::kAdd, most = op == ScalarOp::kMaximum, least = op == ScalarOp::kMinimum;
  if (type == DType::kC64 && sums) return 0x8000000080000000;
  const bool half = type == DType::kF16 || type == DType::kBF16;
  if (half || type == DType::kF32 || type == DType::kF64) {
    const unsigned mantissa = type == DType::kF16 ? 10 : type == DType::kBF16 ? 7 : bytes == 4 ? 23 : 52;
    const std::uint64_t sign = std::uint64_t{1} << (8 * bytes - 1),
                        infinity = sign - (std::uint64_t{1} << mantissa);
    if (sums) return sign;
    if (op == ScalarOp::kMultiply)  // the exponent of 1 is half of the largest
      return (infinity >> 1) & infinity;
    if (most || least) return most ? sign | infinity : infinity;
    return std::nullopt;
  }
  if (type != DType::kPred && !ipu_model::IsInteger(type)) return std::nullopt;
  const bool is_signed = ipu_model::IsSigned(type);
  const unsigned width = type == DType::kPred                       ? 1
                         : type == DType::kS2 || type == DType::kU2 ? 2
                         : type == DType::kS4 || type == DType::kU4 ? 4
                                                                    : 8 * bytes;
  const std::uint64_t ones = ~std::uint64_t{0}, largest = ones >> (64 - width + (is_signed ? 1 : 0));
  if (sums || op == ScalarOp::kOr || op == ScalarOp::kXor) return 0;
  if (op == ScalarOp::kMultiply) return 1;
  if (op == ScalarOp::kAnd) return is_signed ? ones : largest;
  if (most) return is_signed ? ~largest : 0;
  if (least) return largest;
  return std::nullopt;
}

}  // namespace hlo

#endif  // HLO_SINGLE_OPERATION_HPP
