// Block functions: arithmetic, comparisons and selection on real types.
#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

#include "kernels/elementwise/program/micro_loop.h"
#include "kernels/vector/convert.h"
#include "kernels/vector/register_types_isa.h"

namespace ipu_model::ISA_NAMESPACE {
namespace {

// Arithmetic that wraps: signed overflow is undefined in C++, and 16-bit operands would be promoted to int.
template <typename T, typename = void>
struct Wrapping {
  using type = T;
};
template <typename T>
struct Wrapping<T, std::enable_if_t<std::is_integral_v<T>>> {
  using type = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
};
template <typename T>
using WrappingT = typename Wrapping<T>::type;

struct Add {
  template <typename T>
  static T Apply(T a, T b) {
    return static_cast<T>(static_cast<WrappingT<T>>(a) + static_cast<WrappingT<T>>(b));
  }
};
struct Subtract {
  template <typename T>
  static T Apply(T a, T b) {
    return static_cast<T>(static_cast<WrappingT<T>>(a) - static_cast<WrappingT<T>>(b));
  }
};
struct Multiply {
  template <typename T>
  static T Apply(T a, T b) {
    return static_cast<T>(static_cast<WrappingT<T>>(a) * static_cast<WrappingT<T>>(b));
  }
};
struct Negate {
  template <typename T>
  static T Apply(T a) {
    if constexpr (std::is_integral_v<T>) {
      return Subtract::Apply(T{0}, a);
    } else {
      return -a;
    }
  }
};
struct Abs {
  template <typename T>
  static T Apply(T a) {
    if constexpr (std::is_same_v<T, float>) {
      return FloatOf(BitsOf(a) & 0x7fffffffu);
    } else if constexpr (std::is_same_v<T, double>) {
      return DoubleOf(BitsOf(a) & 0x7fffffffffffffffu);
    } else if constexpr (std::is_signed_v<T>) {
      return a < 0 ? Negate::Apply(a) : a;
    } else {
      return a;
    }
  }
};
// A denormal as zero, which the processor makes of it in sums and products, but not where a value is chosen.
static inline float Flushed(float a) {
  return (BitsOf(a) & 0x7f800000u) != 0 ? a : FloatOf(BitsOf(a) & 0x80000000u);
}
static inline double Flushed(double a) {
  return (BitsOf(a) & 0x7ff0000000000000u) != 0 ? a : DoubleOf(BitsOf(a) & 0x8000000000000000u);
}
struct Sign {
  template <typename T>
  static T Apply(T a) {
    if constexpr (std::is_floating_point_v<T>) {
      return a > 0 ? T{1} : a < 0 ? T{-1} : Flushed(a);  // keeps -0 and NaN
    } else {
      return static_cast<T>((a > 0 ? 1 : 0) - (std::is_signed_v<T> && a < 0 ? 1 : 0));
    }
  }
};
struct Square {
  template <typename T>
  static T Apply(T a) {
    return Multiply::Apply(a, a);
  }
};
struct Divide {
  template <typename T>
  static T Apply(T a, T b) {
    return a / b;
  }
};
struct Inverse {
  template <typename T>
  static T Apply(T a) {
    return 1 / a;
  }
};

// Returns NaN if either is NaN; +0 is larger than -0.
struct Maximum {
  template <typename T>
  static T Apply(T a, T b) {
    if constexpr (std::is_same_v<T, float>) {
      const float larger = a > b ? a : b;
      const float ordered = a == b ? FloatOf(BitsOf(a) & BitsOf(b)) : larger;
      return a != a ? a : Flushed(ordered);
    } else if constexpr (std::is_same_v<T, double>) {
      const double larger = a > b ? a : b;
      const double ordered = a == b ? DoubleOf(BitsOf(a) & BitsOf(b)) : larger;
      return a != a ? a : Flushed(ordered);
    } else {
      return a > b ? a : b;
    }
  }
};
struct Minimum {
  template <typename T>
  static T Apply(T a, T b) {
    if constexpr (std::is_same_v<T, float>) {
      const float smaller = a < b ? a : b;
      const float ordered = a == b ? FloatOf(BitsOf(a) | BitsOf(b)) : smaller;
      return a != a ? a : Flushed(ordered);
    } else if constexpr (std::is_same_v<T, double>) {
      const double smaller = a < b ? a : b;
      const double ordered = a == b ? DoubleOf(BitsOf(a) | BitsOf(b)) : smaller;
      return a != a ? a : Flushed(ordered);
    } else {
      return a < b ? a : b;
    }
  }
};
struct Clamp {
  template <typename T>
  static T Apply(T low, T x, T high) {
    return Minimum::Apply(Maximum::Apply(x, low), high);
  }
};
// Select keeps every bit, so it works on unsigned integers of the element's size.
struct Select {
  template <typename T>
  static T Apply(std::uint8_t predicate, T on_true, T on_false) {
    return predicate != 0 ? on_true : on_false;
  }
};

struct Eq {
  template <typename T>
  static std::uint8_t Apply(T a, T b) {
    return a == b;
  }
};
struct Ne {
  template <typename T>
  static std::uint8_t Apply(T a, T b) {
    return a != b;
  }
};
struct Lt {
  template <typename T>
  static std::uint8_t Apply(T a, T b) {
    return a < b;
  }
};
struct Le {
  template <typename T>
  static std::uint8_t Apply(T a, T b) {
    return a <= b;
  }
};
struct Gt {
  template <typename T>
  static std::uint8_t Apply(T a, T b) {
    return a > b;
  }
};
struct Ge {
  template <typename T>
  static std::uint8_t Apply(T a, T b) {
    return a >= b;
  }
};
struct TotalLt {
  template <typename T>
  static std::uint8_t Apply(T a, T b) {
    if constexpr (std::is_same_v<T, float>) {
      return Key(static_cast<std::int32_t>(BitsOf(a))) < Key(static_cast<std::int32_t>(BitsOf(b)));
    } else if constexpr (std::is_same_v<T, double>) {
      return Key(static_cast<std::int64_t>(BitsOf(a))) < Key(static_cast<std::int64_t>(BitsOf(b)));
    } else {
      return a < b;
    }
  }
  // Orders negative values in reverse: flips all bits but the sign.
  static std::int32_t Key(std::int32_t x) { return x ^ ((x >> 31) & 0x7fffffff); }
  static std::int64_t Key(std::int64_t x) { return x ^ ((x >> 63) & 0x7fffffffffffffff); }
};

struct Fma {
  template <typename T>
  static T Apply(T a, T b, T c) {
    return std::fma(a, b, c);
  }
};
struct MultiplySubtract {
  template <typename T>
  static T Apply(T a, T b, T c) {
    return std::fma(a, b, -c);
  }
};
struct SubtractMultiply {
  template <typename T>
  static T Apply(T a, T b, T c) {
    return std::fma(-a, b, c);
  }
};
// Two operations, each rounded, in one pass over memory.
struct AddMultiply {
  static float Apply(float a, float b, float c) { return (a + b) * c; }
};
struct SubtractTimes {
  static float Apply(float a, float b, float c) { return (a - b) * c; }
};
struct MultiplyMultiply {
  static float Apply(float a, float b, float c) { return (a * b) * c; }
};
struct AddAdd {
  static float Apply(float a, float b, float c) { return (a + b) + c; }
};
struct DivideAdd {
  static float Apply(float a, float b, float c) { return a / b + c; }
};
struct MultiplyDivide {
  static float Apply(float a, float b, float c) { return (a * b) / c; }
};
// Three operations in one pass over memory.
struct AddMultiplyMultiply {
  static float Apply(float a, float b, float c, float d) { return ((a + b) * c) * d; }
};
struct FmaMultiply {
  static float Apply(float a, float b, float c, float d) { return std::fma(a, b, c) * d; }
};
struct MultiplyFma {
  static float Apply(float a, float b, float c, float d) { return std::fma(a * b, c, d); }
};

template <typename C, typename A, typename R, int kForm>
void SelectCompareLoop(const MicroArguments& m) {
  const Operand<A, (kForm & 1) != 0> a(m.operand[0]);
  const Operand<A, (kForm & 2) != 0> b(m.operand[1]);
  const Operand<R, (kForm & 4) != 0> c(m.operand[2]);
  const Operand<R, (kForm & 8) != 0> d(m.operand[3]);
  R* r = static_cast<R*>(m.result);
#pragma GCC ivdep
  for (std::int64_t i = 0, n = m.n; i < n; ++i) {
    // Read both before the choice; otherwise the loop needs masked loads.
    const R x = c(i), y = d(i);
    r[i] = C::Apply(a(i), b(i)) ? x : y;
  }
}
template <typename C, typename A>
void SelectCompareForms(const MicroArguments& m) {
  using R = std::uint32_t;
  switch (m.scalar & 15) {
    case 2:
      return SelectCompareLoop<C, A, R, 2>(m);
    case 4:
      return SelectCompareLoop<C, A, R, 4>(m);
    case 6:
      return SelectCompareLoop<C, A, R, 6>(m);
    case 8:
      return SelectCompareLoop<C, A, R, 8>(m);
    case 10:
      return SelectCompareLoop<C, A, R, 10>(m);
    case 12:
      return SelectCompareLoop<C, A, R, 12>(m);
    case 14:
      return SelectCompareLoop<C, A, R, 14>(m);
    case 0:
      return SelectCompareLoop<C, A, R, 0>(m);
    default: {
      // Both compared operands are one element, so the result is one of the others.
      const bool first = C::Apply(*static_cast<const A*>(m.operand[0]), *static_cast<const A*>(m.operand[1]));
      const R* from = static_cast<const R*>(m.operand[first ? 2 : 3]);
      R* r = static_cast<R*>(m.result);
      if ((m.scalar & (first ? 4U : 8U)) != 0) {
        std::fill_n(r, m.n, *from);
      } else if (from != r) {
        std::copy_n(from, m.n, r);
      }
    }
  }
}
// Returns the comparison of b with a that is `op` of a and b.
ScalarOp Mirrored(ScalarOp op) {
  switch (op) {
    case ScalarOp::kLt:
      return ScalarOp::kGt;
    case ScalarOp::kLe:
      return ScalarOp::kGe;
    case ScalarOp::kGt:
      return ScalarOp::kLt;
    case ScalarOp::kGe:
      return ScalarOp::kLe;
    default:
      return op;
  }
}
template <typename A>
void SelectCompare(const MicroArguments& m) {
  auto op = static_cast<ScalarOp>(m.immediate);
  MicroArguments ordered = m;
  if ((m.scalar & 3) == 1) {  // loops exist for one element on the right
    std::swap(ordered.operand[0], ordered.operand[1]);
    ordered.scalar = (m.scalar & 12) | 2;
    op = Mirrored(op);
  }
  switch (op) {
    case ScalarOp::kEq:
      return SelectCompareForms<Eq, A>(ordered);
    case ScalarOp::kNe:
      return SelectCompareForms<Ne, A>(ordered);
    case ScalarOp::kLt:
      return SelectCompareForms<Lt, A>(ordered);
    case ScalarOp::kLe:
      return SelectCompareForms<Le, A>(ordered);
    case ScalarOp::kGt:
      return SelectCompareForms<Gt, A>(ordered);
    default:
      return SelectCompareForms<Ge, A>(ordered);
  }
}

struct alignas(16) Wide {
  std::uint64_t word[2];
};

template <typename T>
MicroFunction FindFor(ScalarOp op) {
  constexpr bool kFloat = std::is_floating_point_v<T>;
  using U = std::conditional_t<
      sizeof(T) == 1, std::uint8_t,
      std::conditional_t<sizeof(T) == 2, std::uint16_t,
                         std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>>;
  using Same = std::conditional_t<kFloat, T, U>;  // signed and unsigned types share a loop
  switch (op) {
    case ScalarOp::kAbs:
      return Unary<Abs, T>;
    case ScalarOp::kNegate:
      return Unary<Negate, Same>;
    case ScalarOp::kSign:
      return Unary<Sign, T>;
    case ScalarOp::kSquare:
      return Unary<Square, Same>;
    case ScalarOp::kAdd:
      return Binary<Add, Same>;
    case ScalarOp::kSubtract:
      return Binary<Subtract, Same>;
    case ScalarOp::kMultiply:
      return Binary<Multiply, Same>;
    case ScalarOp::kMaximum:
      return Binary<Maximum, T>;
    case ScalarOp::kMinimum:
      return Binary<Minimum, T>;
    case ScalarOp::kClamp:
      return Ternary<Clamp, T>;
    case ScalarOp::kSelect:
      return Ternary<Select, std::uint8_t, U>;
    case ScalarOp::kEq:
      return Binary<Eq, Same, std::uint8_t>;
    case ScalarOp::kNe:
      return Binary<Ne, Same, std::uint8_t>;
    case ScalarOp::kLt:
      return Binary<Lt, T, std::uint8_t>;
    case ScalarOp::kLe:
      return Binary<Le, T, std::uint8_t>;
    case ScalarOp::kGt:
      return Binary<Gt, T, std::uint8_t>;
    case ScalarOp::kGe:
      return Binary<Ge, T, std::uint8_t>;
    case ScalarOp::kTotalLt:
      return Binary<TotalLt, T, std::uint8_t>;
    default:
      break;
  }
  if constexpr (kFloat) {
    switch (op) {
      case ScalarOp::kDivide:
        return Binary<Divide, T>;
      case ScalarOp::kInverse:
        return Unary<Inverse, T>;
      case ScalarOp::kFma:
        return Ternary<Fma, T>;
      default:
        break;
    }
  }
  return nullptr;
}

}  // namespace

MicroFunction FindArithmetic(ScalarOp op, RegisterType type) {
  if (type == RegisterType::kC64 || type == RegisterType::kC128) {
    if (op != ScalarOp::kSelect) return nullptr;
    return type == RegisterType::kC64 ? Ternary<Select, std::uint8_t, std::uint64_t>
                                      : Ternary<Select, std::uint8_t, Wide>;
  }
  return ForNumber<MicroFunction>(type, [op](auto zero) { return FindFor<decltype(zero)>(op); });
}

MicroFunction FindFused(FusedOp op, RegisterType type) {
  const bool f32 = type == RegisterType::kF32;
  switch (op) {
    case FusedOp::kMultiplySubtract:
      return f32 ? Ternary<MultiplySubtract, float> : nullptr;
    case FusedOp::kSubtractMultiply:
      return f32 ? Ternary<SubtractMultiply, float> : nullptr;
    case FusedOp::kAddMultiply:
      return f32 ? Ternary<AddMultiply, float> : nullptr;
    case FusedOp::kSubtractTimes:
      return f32 ? Ternary<SubtractTimes, float> : nullptr;
    case FusedOp::kMultiplyMultiply:
      return f32 ? Ternary<MultiplyMultiply, float> : nullptr;
    case FusedOp::kAddAdd:
      return f32 ? Ternary<AddAdd, float> : nullptr;
    case FusedOp::kDivideAdd:
      return f32 ? Ternary<DivideAdd, float> : nullptr;
    case FusedOp::kMultiplyDivide:
      return f32 ? Ternary<MultiplyDivide, float> : nullptr;
    case FusedOp::kAddMultiplyMultiply:
      return f32 ? Quaternary<AddMultiplyMultiply, float> : nullptr;
    case FusedOp::kFmaMultiply:
      return f32 ? Quaternary<FmaMultiply, float> : nullptr;
    case FusedOp::kMultiplyFma:
      return f32 ? Quaternary<MultiplyFma, float> : nullptr;
    case FusedOp::kProductPlus:
    case FusedOp::kProductMinus:
    case FusedOp::kMinusProduct:
      return FindProduct(op, type);
    case FusedOp::kSelectCompare:
      return f32                          ? SelectCompare<float>
             : type == RegisterType::kS32 ? SelectCompare<std::int32_t>
             : type == RegisterType::kU32 ? SelectCompare<std::uint32_t>
                                          : nullptr;
    default:
      return FindConversion(op, type);
  }
}

}  // namespace ipu_model::ISA_NAMESPACE
