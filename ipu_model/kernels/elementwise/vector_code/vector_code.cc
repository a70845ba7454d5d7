#include "kernels/elementwise/vector_code/vector_code.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "hlo/ScalarOps.hpp"
#include "kernels/vector/convert.h"

namespace ipu_model {
namespace {

constexpr Vector kNone = VectorCode::kNone, kTemporary = RegisterFile::kTemporary;
constexpr std::uint32_t kSignBit = 0x80000000u, kOne = 0x3f800000u, kMinusOne = 0xbf800000u,
                        kInfinity = 0x7f800000u, kSmallestNormal = 0x00800000u, kTwoTo31 = 0x4f000000u;
constexpr std::uint64_t kSignBit64 = std::uint64_t{1} << 63, kOne64 = std::uint64_t{0x3ff} << 52,
                        kInfinity64 = std::uint64_t{0x7ff} << 52;

// Opcodes that are the same for all floats.
constexpr std::uint8_t kSqrt = 0x51, kAdd = 0x58, kMultiply = 0x59, kSubtract = 0x5c, kMinimum = 0x5d,
                       kDivide = 0x5e, kMaximum = 0x5f, kCompare = 0xc2;
constexpr std::uint8_t kMultiplyAdd = 0xb8, kMultiplySubtract = 0xba, kSubtractMultiply = 0xbc;
// Immediates of comparisons.
constexpr std::uint8_t kEqual = 0, kUnordered = 3, kNotEqual = 4, kOrdered = 7, kLess = 0x11,
                       kLessEqual = 0x12, kGreaterEqual = 0x1d, kGreater = 0x1e;
// Immediates of vroundps, without exceptions.
constexpr std::uint8_t kNearest = 8, kDown = 9, kUp = 10, kTowardsZero = 11;

}  // namespace

CodeValue VectorCode::Pool(std::uint64_t bits, bool wide_element) {
  std::array<unsigned char, 32> bytes;
  const std::size_t size = wide_element ? 8 : static_cast<std::size_t>(lane_bytes_);
  for (std::size_t at = 0; at < bytes.size(); at += size) std::memcpy(bytes.data() + at, &bits, size);
  return {{CodeAddress::kPool, code_->Constant(bytes)}, 32, CodeValue::Form::kNumbers, true};
}

void VectorCode::AddConstant(const void* element, bool predicate) {
  std::uint64_t bits = 0;
  const bool wide_element = !predicate && SizeOf(kind_.type) == 8;
  if (predicate) {
    bits = *static_cast<const std::uint8_t*>(element) != 0 ? ~std::uint64_t{0} : 0;
  } else {
    std::memcpy(&bits, element, SizeOf(kind_.type));
    if (SizeOf(kind_.type) < 4 && IsSigned(kind_.type)) {
      const int unused = 64 - 8 * static_cast<int>(SizeOf(kind_.type));
      bits = static_cast<std::uint64_t>(static_cast<std::int64_t>(bits << unused) >> unused);
    }
  }
  operands_[num_operands_++] = {true, Pool(bits, wide_element), bits};
}

void VectorCode::OpWith(VexOp op, Vector result, Vector a, int k) {
  const Operand& operand = operands_[k];
  if (operand.constant) {
    code_->Vex(op, wide(), result, a, registers_->At(operand.value.address));
  } else {
    Op(op, result, a, Use(k));
  }
}

// The form for scalars computes one lane only: no time is lost for what is in the others.
VexOp VectorCode::Float(std::uint8_t opcode) const {
  const bool f64 = kind_.type == RegisterType::kF64;
  const int prefix = lanes_ == 1 ? (f64 ? 3 : 2) : (f64 ? 1 : 0);
  return {1, static_cast<std::uint8_t>(prefix), 0, opcode};
}

void VectorCode::Blend(Vector result, Vector if_false, Vector if_true, Vector mask) {
  code_->VexImmediate(vex::kBlend(lane_bytes_), wide(), result, if_false, if_true,
                      static_cast<std::uint8_t>(mask << 4));
}

Vector VectorCode::Select(Vector mask, int if_true, int if_false) {
  const Vector x = Use(if_true), y = Use(if_false), result = registers_->New();
  Blend(result, y, x, mask);
  return result;
}

Vector VectorCode::Emit() {
  if (Is(ScalarOp::kConvert)) return EmitConvert();
  if (kind_.code == MicroKind::kFusedCode + static_cast<int>(FusedOp::kToPred)) return EmitConvert();
  if (kind_.predicates) return EmitPredicates();
  if (Is(ScalarOp::kSelect)) {
    Vector mask = Use(0);
    if (SizeOf(kind_.type) <= 4) return Select(mask, 1, 2);
    code_->Vex(vex::kSignExtend64, false, kTemporary, 0, mask);
    const Vector x = Use(1), y = Use(2), result = registers_->New();
    code_->VexImmediate(vex::kBlend64, false, result, y, x, static_cast<std::uint8_t>(kTemporary << 4));
    return result;
  }
  if (kind_.predicate_result && !Is(ScalarOp::kIsFinite)) {
    Use(0);
    Use(1);
    return EmitCompare(kind_.code, kind_.type, registers_->New());
  }
  if (kind_.code == MicroKind::kFusedCode + static_cast<int>(FusedOp::kSelectCompare)) {
    const Vector mask = EmitCompare(static_cast<int>(immediate_), kind_.type, kTemporary + 1);
    return mask < 0 ? kNone : Select(mask, 2, 3);
  }
  if (kind_.type == RegisterType::kF32 || kind_.type == RegisterType::kF64) return EmitFloat();
  if (kind_.code == MicroKind::kFusedCode + static_cast<int>(FusedOp::kFromBits)) return EmitHalfBits();
  if (IsLaneInteger(kind_.type)) return EmitInteger();
  return EmitInteger64();
}

namespace {

// What the instruction that compares floats calls an order.
std::uint8_t ImmediateOf(ScalarOp comparison) {
  switch (comparison) {
    case ScalarOp::kEq:
      return kEqual;
    case ScalarOp::kNe:
      return kNotEqual;
    case ScalarOp::kLt:
      return kLess;
    case ScalarOp::kLe:
      return kLessEqual;
    case ScalarOp::kGt:
      return kGreater;
    default:
      return kGreaterEqual;
  }
}

}  // namespace

// Uses the first and the last temporary.
Vector VectorCode::EmitCompare(int op, RegisterType type, Vector result) {
  const auto order = static_cast<ScalarOp>(op);
  if (op >= MicroKind::kFusedCode || !HasTrait(order, hlo::kComparison)) return kNone;
  if (type == RegisterType::kF32 || type == RegisterType::kF64) {
    const Vector a = Use(0), b = Use(1);
    code_->VexImmediate(Float(kCompare), wide(), result, a, b, ImmediateOf(order));
    return result;
  }
  const bool small = IsLaneInteger(type);
  if (!small && type != RegisterType::kS64) return kNone;
  Vector a = Use(0), b = Use(1);
  const bool equality = order == ScalarOp::kEq || order == ScalarOp::kNe;
  const VexOp equal = small ? vex::kEqual(lane_bytes_) : vex::kEqual64,
              greater = small ? vex::kGreater(lane_bytes_) : vex::kGreater64;
  bool negate = order == ScalarOp::kNe || order == ScalarOp::kLe || order == ScalarOp::kGe;
  if (small && !IsSigned(type) && !IsExtended(type) && !equality) {
    // There is no instruction for the order of unsigned integers: a <= b if a is the smaller of both.
    const bool less = order == ScalarOp::kLt || order == ScalarOp::kGe;
    Op((less ? vex::kMaximumU : vex::kMinimumU)(lane_bytes_), kTemporary, a, b);
    Op(equal, result, kTemporary, a);
    negate = order == ScalarOp::kLt || order == ScalarOp::kGt;
  } else {
    if (order == ScalarOp::kLt || order == ScalarOp::kGe) std::swap(a, b);
    Op(equality ? equal : greater, result, a, b);
  }
  if (negate) code_->Vex(vex::kXor, wide(), result, result, registers_->At(Pool(~std::uint64_t{0}).address));
  return result;
}

Vector VectorCode::EmitConvert() {
  const bool to_predicate = !Is(ScalarOp::kConvert);
  if (to_predicate) {
    if (kind_.predicates || (kind_.type != RegisterType::kF32 && !IsLaneInteger(kind_.type))) return kNone;
    const Vector a = Use(0), result = registers_->New();
    Op(vex::kXor, kTemporary, kTemporary, kTemporary);
    if (kind_.type == RegisterType::kF32) {
      code_->VexImmediate(Float(kCompare), wide(), result, a, kTemporary, kNotEqual);
    } else {
      Op(vex::kEqual(lane_bytes_), result, a, kTemporary);
      code_->Vex(vex::kXor, wide(), result, result, registers_->At(Pool(~std::uint64_t{0}).address));
    }
    return result;
  }
  if (kind_.predicates) {
    if (kind_.result != RegisterType::kF32 && !IsLaneInteger(kind_.result)) return kNone;
    const std::uint32_t one = kind_.result == RegisterType::kF32 ? kOne : 1;
    const Vector a = Use(0), result = registers_->New();
    code_->Vex(vex::kAnd, wide(), result, a, registers_->At(Pool(one).address));
    return result;
  }
  if (IsLaneInteger(kind_.type) && IsLaneInteger(kind_.result)) return EmitIntegerConvert();
  if (IsLaneInteger(kind_.type) && kind_.type != RegisterType::kU32 && kind_.result == RegisterType::kF32) {
    const Vector a = Use(0), result = registers_->New();
    code_->Vex(vex::kToFloat, wide(), result, 0, a);
    return result;
  }
  if (kind_.type == RegisterType::kF32 && IsLaneInteger(kind_.result)) return EmitFloatToInteger();
  return kNone;
}

Vector VectorCode::EmitFloatToInteger() {
  const RegisterType to = kind_.result;
  if (to == RegisterType::kU32) return kNone;
  const Vector a = Use(0), result = registers_->New();
  if (to == RegisterType::kS32) {
    // Out of range, the instruction gives the smallest integer.
    code_->Vex(vex::kToInteger, wide(), result, 0, a);
    code_->VexImmediate(Float(kCompare), wide(), kTemporary, a, registers_->At(Pool(kTwoTo31).address),
                        kGreaterEqual);
    Op(vex::kXor, result, result, kTemporary);
  } else {
    const int bits = 8 * static_cast<int>(SizeOf(to)) - (IsSigned(to) ? 1 : 0);
    const auto high = static_cast<float>((1 << bits) - 1), low = IsSigned(to) ? -high - 1 : 0.0f;
    code_->Vex(Float(kMaximum), wide(), result, a, registers_->At(Pool(BitsOf(low)).address));
    code_->Vex(Float(kMinimum), wide(), result, result, registers_->At(Pool(BitsOf(high)).address));
    code_->Vex(vex::kToInteger, wide(), result, 0, result);
    if (!IsSigned(to)) return result;  // of NaN, the maximum gave zero
  }
  code_->VexImmediate(Float(kCompare), wide(), kTemporary, a, a, kOrdered);
  Op(vex::kAnd, result, result, kTemporary);
  return result;
}

Vector VectorCode::EmitPredicates() {
  const auto op = static_cast<ScalarOp>(kind_.code);
  const bool negate = kind_.code == MicroKind::kFusedCode + static_cast<int>(FusedOp::kLogicalNot);
  if (negate || op == ScalarOp::kAnd || op == ScalarOp::kOr || op == ScalarOp::kXor) {
    const Vector a = Use(0), b = negate ? Ones() : Use(1), result = registers_->New();
    Op(op == ScalarOp::kAnd ? vex::kAnd : op == ScalarOp::kOr ? vex::kOr : vex::kXor, result, a, b);
    return result;
  }
  if (op == ScalarOp::kSelect) return Select(Use(0), 1, 2);
  if (op == ScalarOp::kEq || op == ScalarOp::kNe) {
    const Vector a = Use(0), b = Use(1), result = registers_->New();
    Op(vex::kXor, result, a, b);
    if (op == ScalarOp::kEq) Op(vex::kXor, result, result, Ones());
    return result;
  }
  const bool less = op == ScalarOp::kLt || op == ScalarOp::kLe;
  if (less || op == ScalarOp::kGt || op == ScalarOp::kGe) {
    const Vector a = Use(0), b = Use(1), ones = Ones(), result = registers_->New();
    const bool strict = op == ScalarOp::kLt || op == ScalarOp::kGt;
    const Vector smaller = less ? a : b, larger = less ? b : a;
    // Strictly: not the smaller one, but the larger one. Else: not the smaller one, or the larger one.
    Op(vex::kXor, kTemporary, smaller, ones);
    Op(strict ? vex::kAnd : vex::kOr, result, kTemporary, larger);
    return result;
  }
  return kNone;
}

// a * b + c and its variants with one rounding; the instruction takes c from the result.
Vector VectorCode::FusedMultiply(std::uint8_t opcode, Vector a, Vector b, int c) {
  const Vector addend = Use(c), result = registers_->New();
  code_->Vex(vex::kMove, wide(), result, 0, addend);
  const auto w = static_cast<std::uint8_t>(kind_.type == RegisterType::kF64 ? 1 : 0);
  code_->Vex({2, 1, w, static_cast<std::uint8_t>(opcode + (lanes_ == 1 ? 1 : 0))}, wide(), result, a, b);
  return result;
}

// Denormals become zeros of their sign.
void VectorCode::FlushTemporary() {
  const bool f64 = kind_.type == RegisterType::kF64;
  code_->Vex(Float(kMultiply), wide(), kTemporary, kTemporary,
             registers_->At(Pool(f64 ? kOne64 : kOne, f64).address));
}

// NaN if either is NaN; +0 is larger than -0. Uses all temporaries; `result` may be one of the operands.
void VectorCode::Extremum(bool maximum, Vector result, Vector a, Vector b) {
  const Vector equal = kTemporary + 1, unordered = kTemporary + 2, both = kTemporary + 3;
  const VexOp blend = kind_.type == RegisterType::kF64 ? vex::kBlend64 : vex::kBlend32;
  code_->VexImmediate(Float(kCompare), wide(), equal, a, b, kEqual);
  code_->VexImmediate(Float(kCompare), wide(), unordered, a, a, kUnordered);
  Op(maximum ? vex::kAnd : vex::kOr, both, a, b);
  // The instruction gives b if the two are equal or either is NaN.
  Op(Float(maximum ? kMaximum : kMinimum), kTemporary, a, b);
  code_->VexImmediate(blend, wide(), kTemporary, kTemporary, both, static_cast<std::uint8_t>(equal << 4));
  FlushTemporary();
  code_->VexImmediate(blend, wide(), result, kTemporary, a, static_cast<std::uint8_t>(unordered << 4));
}

// Whether operand k is a constant with which an extremum needs no care for zeros: it is not zero, or zero of
// the sign that wins.
bool VectorCode::IsBound(bool maximum, int k) const {
  if (!operands_[k].constant || kind_.type != RegisterType::kF32) return false;
  const auto bits = static_cast<std::uint32_t>(operands_[k].bits), magnitude = bits & ~kSignBit;
  return (magnitude >= kSmallestNormal && magnitude <= kInfinity) || bits == (maximum ? 0 : kSignBit);
}
bool VectorCode::LeavesDenormals(bool maximum, int k) const {
  const float bound = FloatOf(static_cast<std::uint32_t>(operands_[k].bits));
  return maximum ? bound < 0 : bound > 0;
}

// An operand between bounds (IsBound), of which either may be none (-1). With a zero, a denormal is equal to
// it, and the instruction gives the bound.
Vector VectorCode::Bounded(int x, int low, int high) {
  const Vector a = Use(x), result = registers_->New(), is_nan = kTemporary + 1;
  bool denormals = true;
  Vector value = a;
  for (const bool maximum : {true, false}) {
    const int k = maximum ? low : high;
    if (k < 0) continue;
    OpWith(Float(maximum ? kMaximum : kMinimum), kTemporary, value, k);
    denormals = denormals && LeavesDenormals(maximum, k);
    value = kTemporary;
  }
  if (denormals) FlushTemporary();
  code_->VexImmediate(Float(kCompare), wide(), is_nan, a, a, kUnordered);
  code_->VexImmediate(vex::kBlend32, wide(), result, kTemporary, a, static_cast<std::uint8_t>(is_nan << 4));
  return result;
}

Vector VectorCode::FloatUnary() {
  const bool f64 = kind_.type == RegisterType::kF64;
  const auto pool = [&](std::uint32_t bits, std::uint64_t bits64) {
    return registers_->At(Pool(f64 ? bits64 : bits, f64).address);
  };
  const Vector a = Use(0);
  switch (static_cast<ScalarOp>(kind_.code)) {
    case ScalarOp::kNegate: {
      const Vector result = registers_->New();
      code_->Vex(vex::kXor, wide(), result, a, pool(kSignBit, kSignBit64));
      return result;
    }
    case ScalarOp::kAbs: {
      const Vector result = registers_->New();
      code_->Vex(vex::kAnd, wide(), result, a, pool(~kSignBit, ~kSignBit64));
      return result;
    }
    case ScalarOp::kIsFinite: {
      const Vector result = registers_->New();
      code_->Vex(vex::kAnd, wide(), result, a, pool(~kSignBit, ~kSignBit64));
      code_->VexImmediate(Float(kCompare), wide(), result, result, pool(kInfinity, kInfinity64), kLess);
      return result;
    }
    case ScalarOp::kSquare: {
      const Vector result = registers_->New();
      Op(Float(kMultiply), result, a, a);
      return result;
    }
    case ScalarOp::kSqrt: {
      const Vector result = registers_->New();
      Op(Float(kSqrt), result, lanes_ == 1 ? a : 0, a);
      return result;
    }
    case ScalarOp::kInverse:
    case ScalarOp::kRsqrt: {
      const Vector one = registers_->Use(Pool(f64 ? kOne64 : kOne, f64)), result = registers_->New();
      if (Is(ScalarOp::kInverse)) {
        Op(Float(kDivide), result, one, a);
      } else {
        Op(Float(kSqrt), kTemporary, lanes_ == 1 ? a : 0, a);
        Op(Float(kDivide), result, one, kTemporary);
      }
      return result;
    }
    default:
      break;
  }
  if (f64) return kNone;
  switch (static_cast<ScalarOp>(kind_.code)) {
    case ScalarOp::kTrunc:
    case ScalarOp::kRoundNearestEven:
    case ScalarOp::kFloor:
    case ScalarOp::kCeil: {
      const Vector result = registers_->New();
      const std::uint8_t direction = Is(ScalarOp::kFloor)   ? kDown
                                     : Is(ScalarOp::kCeil)  ? kUp
                                     : Is(ScalarOp::kTrunc) ? kTowardsZero
                                                            : kNearest;
      code_->VexImmediate(vex::kRound, wide(), result, 0, a, direction);
      return result;
    }
    case ScalarOp::kSign: {
      const Vector one = registers_->Use(Pool(kOne)), minus = registers_->Use(Pool(kMinusOne)),
                   result = registers_->New();
      Op(vex::kXor, kTemporary, kTemporary, kTemporary);
      code_->VexImmediate(Float(kCompare), wide(), kTemporary + 1, a, kTemporary, kLess);
      code_->VexImmediate(Float(kCompare), wide(), kTemporary + 2, a, kTemporary, kGreater);
      code_->Vex(vex::kMove, wide(), kTemporary, 0, a);
      FlushTemporary();
      Blend(result, kTemporary, minus, kTemporary + 1);
      Blend(result, result, one, kTemporary + 2);
      return result;
    }
    default:
      return kNone;
  }
}

Vector VectorCode::EmitFloat() {
  if (kind_.code >= MicroKind::kFusedCode) return EmitFloatChain();
  const auto op = static_cast<ScalarOp>(kind_.code);
  if (op == ScalarOp::kSin || op == ScalarOp::kCos) return EmitTrigonometric();
  if (OperandsOf(op) == 1) return FloatUnary();
  switch (op) {
    case ScalarOp::kAdd:
    case ScalarOp::kMultiply:
    case ScalarOp::kSubtract:
    case ScalarOp::kDivide: {
      const std::uint8_t opcode = op == ScalarOp::kAdd        ? kAdd
                                  : op == ScalarOp::kMultiply ? kMultiply
                                  : op == ScalarOp::kSubtract ? kSubtract
                                                              : kDivide;
      const Vector a = Use(0);
      if (!operands_[1].constant) Use(1);
      const Vector result = registers_->New();
      OpWith(Float(opcode), result, a, 1);
      return result;
    }
    case ScalarOp::kMaximum:
    case ScalarOp::kMinimum: {
      const bool maximum = op == ScalarOp::kMaximum;
      for (const int k : {0, 1})
        if (IsBound(maximum, k)) return Bounded(1 - k, maximum ? k : -1, maximum ? -1 : k);
      const Vector a = Use(0), b = Use(1), result = registers_->New();
      Extremum(maximum, result, a, b);
      return result;
    }
    case ScalarOp::kClamp: {
      if (IsBound(true, 0) && IsBound(false, 2)) return Bounded(1, 0, 2);
      const Vector low = Use(0), x = Use(1), high = Use(2), result = registers_->New();
      Extremum(true, result, x, low);
      Extremum(false, result, result, high);
      return result;
    }
    case ScalarOp::kFma:
      return FusedMultiply(kMultiplyAdd, Use(0), Use(1), 2);
    default:
      return kNone;
  }
}

// The operations that the lowering fuses. Each rounds, except for fused multiply-adds.
Vector VectorCode::EmitFloatChain() {
  const auto op = static_cast<FusedOp>(kind_.code - MicroKind::kFusedCode);
  const Vector t = kTemporary;
  // (a first b) second c
  const auto chain = [&](std::uint8_t first, std::uint8_t second) {
    const Vector a = Use(0), b = Use(1), c = Use(2), result = registers_->New();
    Op(Float(first), t, a, b);
    Op(Float(second), result, t, c);
    return result;
  };
  switch (op) {
    case FusedOp::kRound:
      return EmitRound();
    case FusedOp::kToBits:
      return EmitHalfBits();
    case FusedOp::kMultiplySubtract:
      return FusedMultiply(kMultiplySubtract, Use(0), Use(1), 2);
    case FusedOp::kSubtractMultiply:
      return FusedMultiply(kSubtractMultiply, Use(0), Use(1), 2);
    case FusedOp::kAddMultiply:
      return chain(kAdd, kMultiply);
    case FusedOp::kSubtractTimes:
      return chain(kSubtract, kMultiply);
    case FusedOp::kMultiplyMultiply:
      return chain(kMultiply, kMultiply);
    case FusedOp::kAddAdd:
      return chain(kAdd, kAdd);
    case FusedOp::kDivideAdd:
      return chain(kDivide, kAdd);
    case FusedOp::kMultiplyDivide:
      return chain(kMultiply, kDivide);
    case FusedOp::kProductPlus:
      return chain(kMultiply, kAdd);
    case FusedOp::kProductMinus:
      return chain(kMultiply, kSubtract);
    case FusedOp::kMinusProduct: {
      const Vector a = Use(0), b = Use(1), c = Use(2), result = registers_->New();
      Op(Float(kMultiply), t, a, b);
      Op(Float(kSubtract), result, c, t);
      return result;
    }
    case FusedOp::kAddMultiplyMultiply: {
      const Vector a = Use(0), b = Use(1), c = Use(2), d = Use(3), result = registers_->New();
      Op(Float(kAdd), t, a, b);
      Op(Float(kMultiply), t, t, c);
      Op(Float(kMultiply), result, t, d);
      return result;
    }
    case FusedOp::kFmaMultiply: {
      const Vector a = Use(0), b = Use(1), d = Use(3);
      const Vector sum = FusedMultiply(kMultiplyAdd, a, b, 2);
      Op(Float(kMultiply), sum, sum, d);
      return sum;
    }
    case FusedOp::kMultiplyFma: {
      const Vector a = Use(0), b = Use(1), c = Use(2);
      Op(Float(kMultiply), t, a, b);
      return FusedMultiply(kMultiplyAdd, t, c, 3);
    }
    default:
      return kNone;
  }
}

}  // namespace ipu_model
