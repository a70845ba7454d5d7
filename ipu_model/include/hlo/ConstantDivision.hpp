// Division of integers by a constant as a product and shifts: "Division by Invariant Integers using
// Multiplication" (Granlund and Montgomery, 1994), with Robison's form for divisors whose multiplier would
// need one bit more ("N-Bit Unsigned Division Via N-Bit Multiply-Add", 2005).
#ifndef HLO_CONSTANT_DIVISION_HPP
#define HLO_CONSTANT_DIVISION_HPP

#include <cstdint>
#include <cstring>
#include <optional>

#include "hlo/Expression.hpp"

namespace hlo {

// |a| / |d|, rounded down, for all a of a type of `bits` bits:
//   a >> shift                              if d is a power of two, so multiplier == 0
//   (|a| * multiplier >> bits) >> shift     else, with |a| + 1 in place of |a| if `increments`
// The product has 2 * bits bits.
struct ConstantDivision {
  unsigned bits = 0;
  bool isSigned = false;
  bool negative = false;      // the divisor
  std::uint64_t divisor = 0;  // its magnitude, at least 2
  std::uint64_t multiplier = 0;
  unsigned shift = 0;
  bool increments = false;
};

// For a type of 8 to 64 bits, and the bits of the divisor; none for 0, 1, -1 and other types.
inline std::optional<ConstantDivision> constantDivision(ipu_model::DType type, std::uint64_t divisor) {
  using namespace ipu_model;
  const bool narrow = type == DType::kS2 || type == DType::kU2 || type == DType::kS4 || type == DType::kU4;
  if (!IsInteger(type) || narrow) return std::nullopt;
  ConstantDivision d;
  d.bits = static_cast<unsigned>(SizeOf(type)) * 8;
  d.isSigned = IsSigned(type);
  const std::uint64_t all = ~std::uint64_t{0} >> (64 - d.bits);
  divisor &= all;
  d.negative = d.isSigned && divisor >> (d.bits - 1) != 0;
  d.divisor = d.negative ? (0 - divisor) & all : divisor;
  if (d.divisor < 2) return std::nullopt;
  while (d.divisor >> d.shift > 1) ++d.shift;
  const std::uint64_t power = std::uint64_t{1} << d.shift;
  if (d.divisor == power) return d;
  // 2^(bits + shift) / divisor, bit by bit; the first digit is that of 2^shift, which is less than the
  // divisor.
  std::uint64_t remainder = power;
  for (unsigned bit = 0; bit < d.bits; ++bit) {
    const bool one = remainder >= d.divisor - remainder;
    remainder = one ? remainder - (d.divisor - remainder) : 2 * remainder;
    d.multiplier = 2 * d.multiplier + (one ? 1 : 0);
  }
  // Rounded up, the multiplier is exact for a magnitude of bits - 1 bits, and for one of all bits if it is at
  // most 2^shift / divisor too large.
  d.increments = !d.isSigned && d.divisor - remainder >= power;
  if (!d.increments) ++d.multiplier;
  return d;
}

// For an integer quotient or remainder whose divisor is a constant of the expression; none for others.
inline std::optional<ConstantDivision> constantDivisionOf(const Expression& expression,
                                                          const Instruction& instruction) {
  const std::size_t first = expression.inputs.size(), reg = instruction.operand[1];
  if (instruction.op != ScalarOp::kDivide && instruction.op != ScalarOp::kRemainder) return std::nullopt;
  if (reg < first || reg >= first + expression.constants.size()) return std::nullopt;
  std::uint64_t divisor = 0;
  std::memcpy(&divisor, expression.constants[reg - first].bytes, sizeof(divisor));
  return constantDivision(instruction.operand_type, divisor);
}

}  // namespace hlo

#endif  // HLO_CONSTANT_DIVISION_HPP
