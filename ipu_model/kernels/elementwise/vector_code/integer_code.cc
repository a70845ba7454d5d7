// Code of operations on integers.
#include "kernels/elementwise/vector_code/vector_code.h"

namespace ipu_model {
namespace {

constexpr Vector kNone = VectorCode::kNone, kTemporary = RegisterFile::kTemporary;
constexpr VexOp kDivideFloats = {1, 0, 0, 0x5e};  // vdivps
bool IsInteger64(RegisterType type) { return type == RegisterType::kS64 || type == RegisterType::kU64; }

}  // namespace

Vector VectorCode::EmitIntegerConvert() {
  const RegisterType from = kind_.type, to = kind_.result;
  const Vector a = Use(0), result = registers_->New();
  code_->Vex(vex::kMove, wide(), result, 0, a);
  const bool keeps = SizeOf(from) < SizeOf(to) ? !IsSigned(from) || IsSigned(to) : from == to;
  return keeps ? result : Extend(result, to);
}

Vector VectorCode::EmitInteger() {
  const bool is_signed = IsSigned(kind_.type);
  const auto binary = [&](VexOp op) {
    const Vector a = Use(0), b = Use(1), result = registers_->New();
    Op(op, result, a, b);
    return result;
  };
  const auto extended = [&](VexOp op) { return Extend(binary(op), kind_.type); };
  const VexOp maximum = (is_signed ? vex::kMaximumS : vex::kMaximumU)(lane_bytes_),
              minimum = (is_signed ? vex::kMinimumS : vex::kMinimumU)(lane_bytes_);
  const auto rotate = [&](Vector result, Vector a) {
    const auto left = static_cast<int>(immediate_);
    ShiftByImmediate(vex::kLeft, kTemporary, a, left);
    ShiftByImmediate(vex::kRight, kTemporary + 1, a, 32 - left);
    Op(vex::kOr, result, kTemporary, kTemporary + 1);
  };
  if (kind_.code >= MicroKind::kFusedCode) {
    const auto op = static_cast<FusedOp>(kind_.code - MicroKind::kFusedCode);
    if (op == FusedOp::kMultiplyUpper) return EmitMultiplyUpper();
    if (op != FusedOp::kRotateLeft && op != FusedOp::kRotateXor) return kNone;
    const Vector a = Use(0), b = op == FusedOp::kRotateXor ? Use(1) : kNone, result = registers_->New();
    rotate(b < 0 ? result : kTemporary, a);
    if (b >= 0) Op(vex::kXor, result, kTemporary, b);
    return result;
  }
  switch (static_cast<ScalarOp>(kind_.code)) {
    case ScalarOp::kAdd:
      return extended(vex::kAdd(lane_bytes_));
    case ScalarOp::kSubtract:
      return extended(vex::kSubtract(lane_bytes_));
    case ScalarOp::kMultiply: {
      const Vector a = Use(0);
      return Product(a, Use(1));
    }
    case ScalarOp::kDivide:
    case ScalarOp::kRemainder:
      return EmitDivision();
    case ScalarOp::kAnd:
      return binary(vex::kAnd);
    case ScalarOp::kOr:
      return binary(vex::kOr);
    case ScalarOp::kXor:
      return binary(vex::kXor);
    case ScalarOp::kMaximum:
      return binary(maximum);
    case ScalarOp::kMinimum:
      return binary(minimum);
    case ScalarOp::kShiftLeft:
    case ScalarOp::kShiftRightLogical:
    case ScalarOp::kShiftRightArithmetic:
      return EmitShift();
    case ScalarOp::kClamp: {
      const Vector low = Use(0), x = Use(1), high = Use(2), result = registers_->New();
      Op(maximum, kTemporary, x, low);
      Op(minimum, result, kTemporary, high);
      return result;
    }
    case ScalarOp::kNot: {
      const Vector a = Use(0), ones = Ones(), result = registers_->New();
      Op(vex::kXor, result, a, ones);
      return is_signed ? result : Extend(result, kind_.type);
    }
    case ScalarOp::kNegate: {
      const Vector a = Use(0), result = registers_->New();
      Op(vex::kXor, kTemporary, kTemporary, kTemporary);
      Op(vex::kSubtract(lane_bytes_), result, kTemporary, a);
      return Extend(result, kind_.type);
    }
    case ScalarOp::kAbs: {
      if (!is_signed) return kNone;
      const Vector a = Use(0), result = registers_->New();
      Op(vex::kAbs(lane_bytes_), result, 0, a);
      return Extend(result, kind_.type);
    }
    case ScalarOp::kSquare: {
      const Vector a = Use(0);
      return Product(a, a);
    }
    case ScalarOp::kSign: {
      if (!is_signed) return kNone;
      const Vector a = Use(0), one = registers_->Use(Pool(1)), result = registers_->New();
      Op(vex::kSign(lane_bytes_), result, one, a);
      return result;
    }
    default:
      return kNone;
  }
}

void VectorCode::ShiftByImmediate(int digit, Vector result, Vector a, int bits) {
  const VexOp op = lane_bytes_ == 2 ? vex::kShiftByImmediate16 : vex::kShiftByImmediate32;
  code_->VexImmediate(op, wide(), digit, result, a, static_cast<std::uint8_t>(bits));
}

void VectorCode::AndLowBits(Vector result, Vector a, RegisterType type) {
  const std::uint64_t mask = (std::uint64_t{1} << 8 * SizeOf(type)) - 1;
  code_->Vex(vex::kAnd, wide(), result, a, registers_->At(Pool(mask).address));
}

Vector VectorCode::Extend(Vector reg, RegisterType type) {
  if (!IsExtended(type)) return reg;
  if (IsSigned(type)) {
    const int unused = 8 * (lane_bytes_ - static_cast<int>(SizeOf(type)));
    ShiftByImmediate(vex::kLeft, reg, reg, unused);
    ShiftByImmediate(vex::kRightSigned, reg, reg, unused);
  } else {
    AndLowBits(reg, reg, type);
  }
  return reg;
}

Vector VectorCode::Product(Vector a, Vector b) {
  if (lane_bytes_ == 1) return kNone;
  const Vector result = registers_->New();
  // For one lane, the instruction that makes a product of 64 bits takes half the time.
  Op(lane_bytes_ == 2 ? vex::kMultiply16
     : lanes_ == 1    ? vex::kMultiplyEven32
                      : vex::kMultiply32,
     result, a, b);
  return Extend(result, kind_.type);
}

Vector VectorCode::EmitMultiplyUpper() {
  if (lane_bytes_ == 1 || IsSigned(kind_.type) || !operands_[1].constant) return kNone;
  const bool increments = immediate_ != 0;
  Vector a = Use(0);
  const int bits = 8 * static_cast<int>(SizeOf(kind_.type));
  if (lane_bytes_ == 4 && bits == 32) {
    // Products of 64 bits of the even lanes, then of the odd ones.
    const Memory b = registers_->At(Pool(operands_[1].bits, /*wide_element=*/true).address);
    const Vector result = registers_->New();
    const auto upper = [&](Vector to, Vector from) {
      code_->Vex(vex::kMultiplyEven32, wide(), to, from, b);
      if (increments) code_->Vex(vex::kAdd64, wide(), to, to, b);
    };
    const auto shift = [&](Vector to, Vector from) {
      code_->VexImmediate(vex::kShiftByImmediate64, wide(), vex::kRight, to, from, 32);
    };
    if (lanes_ > 1) {
      shift(kTemporary, a);
      upper(kTemporary, kTemporary);
    }
    upper(result, a);
    shift(result, result);
    if (lanes_ > 1) code_->VexImmediate(vex::kBlendByImmediate32, wide(), result, result, kTemporary, 0xaa);
    return result;
  }
  const Vector b = registers_->Use(Pool(operands_[1].bits)), result = registers_->New();
  const bool full = bits == 8 * lane_bytes_;
  if (increments && full) {
    // The largest number may stay as it is: its quotient is that of the number before.
    code_->Vex(vex::kAddSaturating16, wide(), kTemporary, a, registers_->At(Pool(1).address));
    a = kTemporary;
  } else if (increments) {
    Op(vex::kSubtract(lane_bytes_), kTemporary, a, Ones());
    a = kTemporary;
  }
  if (full) {
    Op(vex::kMultiplyUpper16, result, a, b);
    return result;
  }
  Op(lane_bytes_ == 2 ? vex::kMultiply16 : vex::kMultiply32, result, a, b);
  ShiftByImmediate(vex::kRight, result, result, bits);
  return result;
}

Vector VectorCode::EmitShift() {
  const RegisterType type = kind_.type;
  const int bits = 8 * static_cast<int>(SizeOf(type));
  // Types of fewer bits than their register have fewer to shift out.
  if (immediate_ != static_cast<std::uint32_t>(bits)) return kNone;
  const bool left = Is(ScalarOp::kShiftLeft), arithmetic = Is(ScalarOp::kShiftRightArithmetic);
  const bool extended = IsExtended(type), is_signed = IsSigned(type);
  Vector a = Use(0);
  // An operand whose lanes are extended otherwise than the operation wants.
  const auto operand = [&](Vector result) {
    if (!extended || left || arithmetic == is_signed) return a;
    if (arithmetic) {
      ShiftByImmediate(vex::kLeft, result, a, 8 * lane_bytes_ - bits);
      ShiftByImmediate(vex::kRightSigned, result, result, 8 * lane_bytes_ - bits);
    } else {
      AndLowBits(result, a, type);
    }
    return result;
  };
  if (lane_bytes_ == 4) {
    // By the width or more, the instructions shift all bits out, as StableHLO does.
    const Vector b = Use(1), result = registers_->New();
    a = operand(kTemporary);
    Op(left ? vex::kShiftLeft32 : arithmetic ? vex::kShiftRightSigned32 : vex::kShiftRight32, result, a, b);
    return Extend(result, type);
  }
  if (!operands_[1].constant) return kNone;
  const auto by = static_cast<std::uint8_t>(operands_[1].bits) < bits && operands_[1].bits < 256
                      ? static_cast<int>(operands_[1].bits)
                      : bits;
  const Vector result = registers_->New();
  if (lane_bytes_ == 2) {
    a = operand(kTemporary);
    const int digit = left ? vex::kLeft : arithmetic ? vex::kRightSigned : vex::kRight;
    ShiftByImmediate(digit, result, a, by);
    return Extend(result, type);
  }
  if (arithmetic) return kNone;
  // Bytes are shifted in pairs; a mask removes what comes from the other one.
  ShiftByImmediate(left ? vex::kLeft : vex::kRight, result, a, by);
  const unsigned mask = left ? 0xffu << by & 0xffu : 0xffu >> by;
  code_->Vex(vex::kAnd, wide(), result, result, registers_->At(Pool(mask).address));
  return result;
}

// Quotients of floats, which are exact for integers of 16 bits.
Vector VectorCode::EmitDivision() {
  if (lane_bytes_ != 4 || !IsExtended(kind_.type)) return kNone;
  const Vector a = Use(0), b = Use(1), result = registers_->New();
  code_->Vex(vex::kToFloat, wide(), kTemporary, 0, a);
  code_->Vex(vex::kToFloat, wide(), kTemporary + 1, 0, b);
  Op(kDivideFloats, kTemporary, kTemporary, kTemporary + 1);
  code_->Vex(vex::kToInteger, wide(), result, 0, kTemporary);
  if (Is(ScalarOp::kRemainder)) {
    // The remainder of a division by zero is the dividend.
    Op(vex::kMultiply32, result, result, b);
    Op(vex::kSubtract32, result, a, result);
    return result;
  }
  // A division by zero gives ones.
  Op(vex::kXor, kTemporary, kTemporary, kTemporary);
  Op(vex::kEqual32, kTemporary, kTemporary, b);
  Op(vex::kOr, result, result, kTemporary);
  return Extend(result, kind_.type);
}

Vector VectorCode::EmitInteger64() {
  const auto binary = [&](VexOp op) {
    const Vector a = Use(0), b = Use(1), result = registers_->New();
    Op(op, result, a, b);
    return result;
  };
  if (!IsInteger64(kind_.type) || kind_.code >= MicroKind::kFusedCode) return kNone;
  switch (static_cast<ScalarOp>(kind_.code)) {
    case ScalarOp::kAdd:
      return binary(vex::kAdd64);
    case ScalarOp::kSubtract:
      return binary(vex::kSubtract64);
    case ScalarOp::kAnd:
      return binary(vex::kAnd);
    case ScalarOp::kOr:
      return binary(vex::kOr);
    case ScalarOp::kXor:
      return binary(vex::kXor);
    default:
      return kNone;
  }
}

}  // namespace ipu_model
