// Block functions: integer division, powers, bits and shifts. `immediate` is the width of the type in bits;
// for 2- and 4-bit types it is less than the register's width.
#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/elementwise/program/micro_loop.h"
#include "kernels/vector/convert.h"
#include "kernels/vector/register_types_isa.h"

namespace ipu_model::ISA_NAMESPACE {
namespace {

template <typename T>
using UnsignedOf = std::make_unsigned_t<T>;

// Returns a / b for b != 0. CPUs have no vector integer division. Up to 32 bits, the truncated float quotient
// is exact.
template <typename T>
T Quotient(T a, T b) {
  if constexpr (sizeof(T) <= 2) {
    return static_cast<T>(static_cast<std::int32_t>(static_cast<float>(a) / static_cast<float>(b)));
  } else if constexpr (sizeof(T) == 4) {
    const double q = static_cast<double>(a) / static_cast<double>(b);
    if constexpr (std::is_signed_v<T>) return static_cast<T>(static_cast<std::int64_t>(q));
    return static_cast<T>(q);
  } else {
    return static_cast<T>(a / b);
  }
}
// Division by zero gives -1 (all ones). The smallest integer divided by -1 wraps to itself.
struct Divide {
  template <typename T>
  static T Apply(T a, T b) {
    if constexpr (std::is_signed_v<T>) {
      const bool wraps = b == T{-1};
      const T q = Quotient(a, static_cast<T>(b == 0 || wraps ? 1 : b));
      const T negated = static_cast<T>(UnsignedOf<T>{0} - static_cast<UnsignedOf<T>>(a));
      return b == 0 ? T{-1} : wraps ? negated : q;
    } else {
      const T q = Quotient(a, static_cast<T>(b == 0 ? 1 : b));
      return b == 0 ? static_cast<T>(~T{0}) : q;
    }
  }
};
// The remainder of a division by zero is the dividend.
struct Remainder {
  template <typename T>
  static T Apply(T a, T b) {
    bool zero = false;
    if constexpr (std::is_signed_v<T>) zero = b == T{-1};
    const T divisor = static_cast<T>(b == 0 || zero ? 1 : b);
    using Wide = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
    const T r = static_cast<T>(static_cast<Wide>(a) -
                               static_cast<Wide>(Quotient(a, divisor)) * static_cast<Wide>(divisor));
    return b == 0 ? a : zero ? T{0} : r;
  }
};
// A negative exponent gives the truncated inverse: 0, unless the base is 1 or -1.
struct Power {
  template <typename T>
  static T Apply(T base, T exponent) {
    using Wide = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
    Wide result = 1, factor = static_cast<Wide>(base);
    for (auto e = static_cast<UnsignedOf<T>>(exponent); e != 0; e = static_cast<UnsignedOf<T>>(e >> 1)) {
      if (e & 1) result *= factor;
      factor *= factor;
    }
    if constexpr (std::is_signed_v<T>) {
      if (exponent < 0)
        return static_cast<T>(base == 1 ? 1 : base == T{-1} ? ((exponent & 1) != 0 ? -1 : 1) : 0);
    }
    return static_cast<T>(result);
  }
};
struct And {
  template <typename T>
  static T Apply(T a, T b) {
    return a & b;
  }
};
struct Or {
  template <typename T>
  static T Apply(T a, T b) {
    return a | b;
  }
};
struct Xor {
  template <typename T>
  static T Apply(T a, T b) {
    return a ^ b;
  }
};
struct Not {
  template <typename T>
  static T Apply(T a) {
    return static_cast<T>(~a);
  }
};
struct LogicalNot {
  static std::uint8_t Apply(std::uint8_t a) { return a ^ 1; }
};

template <typename T>
UnsignedOf<T> LowBits(T a, std::uint32_t width) {
  const auto mask = static_cast<UnsignedOf<T>>(static_cast<UnsignedOf<T>>(~UnsignedOf<T>{0}) >>
                                               (std::numeric_limits<UnsignedOf<T>>::digits - width));
  return static_cast<UnsignedOf<T>>(static_cast<UnsignedOf<T>>(a) & mask);
}
struct ShiftLeft {
  template <typename T>
  static T Apply(T a, T b, std::uint32_t width) {
    const auto amount = static_cast<UnsignedOf<T>>(b);
    const auto shifted =
        static_cast<UnsignedOf<T>>(static_cast<UnsignedOf<T>>(a) << (amount & (sizeof(T) * 8 - 1)));
    return static_cast<T>(amount < width ? shifted : UnsignedOf<T>{0});
  }
};
struct ShiftRightLogical {
  template <typename T>
  static T Apply(T a, T b, std::uint32_t width) {
    const auto amount = static_cast<UnsignedOf<T>>(b);
    const auto shifted = static_cast<UnsignedOf<T>>(LowBits(a, width) >> (amount & (sizeof(T) * 8 - 1)));
    return static_cast<T>(amount < width ? shifted : UnsignedOf<T>{0});
  }
};
struct ShiftRightArithmetic {
  template <typename T>
  static T Apply(T a, T b, std::uint32_t width) {
    // The shift is arithmetic on unsigned types as well.
    const auto extended = static_cast<std::make_signed_t<T>>(
        std::is_signed_v<T> ? static_cast<std::make_signed_t<T>>(a) : SignExtended(a, width));
    const auto amount = static_cast<UnsignedOf<T>>(b);
    const auto most = static_cast<UnsignedOf<T>>(sizeof(T) * 8 - 1);
    return static_cast<T>(extended >> (amount < width ? amount : most));
  }
  template <typename T>
  static std::make_signed_t<T> SignExtended(T a, std::uint32_t width) {
    using S = std::make_signed_t<T>;
    const int unused = std::numeric_limits<UnsignedOf<T>>::digits - static_cast<int>(width);
    return static_cast<S>(static_cast<S>(static_cast<UnsignedOf<T>>(a) << unused) >> unused);
  }
};
struct Popcount {
  // Adds up bits in fields of twice as many bits each time, which vectorises, unlike the instruction for it.
  template <typename T>
  static T Apply(T a, T, std::uint32_t width) {
    using Wide = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
    Wide bits = LowBits(a, width);
    bits -= bits >> 1 & static_cast<Wide>(0x5555555555555555u);
    bits = (bits & static_cast<Wide>(0x3333333333333333u)) +
           (bits >> 2 & static_cast<Wide>(0x3333333333333333u));
    bits = (bits + (bits >> 4)) & static_cast<Wide>(0x0f0f0f0f0f0f0f0fu);
    bits += bits >> 8;
    bits += bits >> 16;
    if constexpr (sizeof(T) == 8) bits += bits >> 32;
    return static_cast<T>(bits & 0x7f);
  }
};
struct CountLeadingZeros {
  template <typename T>
  static T Apply(T a, T, std::uint32_t width) {
    const std::uint64_t bits = LowBits(a, width);
    return static_cast<T>(bits == 0 ? width
                                    : static_cast<std::uint32_t>(__builtin_clzll(bits)) - (64 - width));
  }
};

template <typename F, typename T, int kForm>
void WidthLoop(const MicroArguments& m) {
  const Operand<T, (kForm & 1) != 0> a(m.operand[0]);
  const Operand<T, (kForm & 2) != 0> b(m.operand[1]);
  T* r = static_cast<T*>(m.result);
  const std::uint32_t width = sizeof(T) == 1 ? m.immediate : static_cast<std::uint32_t>(sizeof(T) * 8);
#pragma GCC ivdep
  for (std::int64_t i = 0, n = m.n; i < n; ++i) r[i] = F::Apply(a(i), b(i), width);
}
template <typename F, typename T>
void Widths(const MicroArguments& m) {
  switch (m.scalar & 3) {
    case 1:
      return WidthLoop<F, T, 1>(m);
    case 2:
      return WidthLoop<F, T, 2>(m);
    default:
      return WidthLoop<F, T, 0>(m);
  }
}
template <typename F, typename T>
void WidthsUnary(const MicroArguments& m) {
  MicroArguments both = m;
  both.operand[1] = m.operand[0];
  WidthLoop<F, T, 0>(both);
}

template <typename T>
MicroFunction FindFor(ScalarOp op) {
  using U = UnsignedOf<T>;
  switch (op) {
    case ScalarOp::kDivide:
      return Binary<Divide, T>;
    case ScalarOp::kRemainder:
      return Binary<Remainder, T>;
    case ScalarOp::kPower:
      return Binary<Power, T>;
    case ScalarOp::kAnd:
      return Binary<And, U>;
    case ScalarOp::kOr:
      return Binary<Or, U>;
    case ScalarOp::kXor:
      return Binary<Xor, U>;
    case ScalarOp::kNot:
      return Unary<Not, U>;
    case ScalarOp::kPopcnt:
      return WidthsUnary<Popcount, U>;
    case ScalarOp::kClz:
      return WidthsUnary<CountLeadingZeros, U>;
    case ScalarOp::kShiftLeft:
      return Widths<ShiftLeft, U>;
    case ScalarOp::kShiftRightLogical:
      return Widths<ShiftRightLogical, U>;
    case ScalarOp::kShiftRightArithmetic:
      return Widths<ShiftRightArithmetic, T>;
    default:
      return nullptr;
  }
}

template <typename T>
void RotateLeft(const MicroArguments& m) {
  const T* a = static_cast<const T*>(m.operand[0]);
  T* r = static_cast<T*>(m.result);
  const unsigned left = m.immediate, right = static_cast<unsigned>(sizeof(T) * 8) - left;
#pragma GCC ivdep
  for (std::int64_t i = 0, n = m.n; i < n; ++i) r[i] = static_cast<T>(a[i] << left | a[i] >> right);
}
template <typename T, int kForm>
void RotateXorLoop(const MicroArguments& m) {
  const Operand<T, (kForm & 1) != 0> a(m.operand[0]);
  const Operand<T, (kForm & 2) != 0> b(m.operand[1]);
  T* r = static_cast<T*>(m.result);
  const unsigned left = m.immediate, right = static_cast<unsigned>(sizeof(T) * 8) - left;
#pragma GCC ivdep
  for (std::int64_t i = 0, n = m.n; i < n; ++i) r[i] = static_cast<T>(a(i) << left | a(i) >> right) ^ b(i);
}
template <typename T>
void RotateXor(const MicroArguments& m) {
  switch (m.scalar & 3) {
    case 1:
      return RotateXorLoop<T, 1>(m);
    case 2:
      return RotateXorLoop<T, 2>(m);
    default:
      return RotateXorLoop<T, 0>(m);
  }
}

// (a + 1) * b is a * b + b, which does not overflow.
template <typename T>
void MultiplyUpper(const MicroArguments& m) {
  __extension__ using Product =
      std::conditional_t<sizeof(T) == 8, unsigned __int128,
                         std::conditional_t<sizeof(T) == 4, std::uint64_t, std::uint32_t>>;
  const T* a = static_cast<const T*>(m.operand[0]);
  T* r = static_cast<T*>(m.result);
  const Product b = *static_cast<const T*>(m.operand[1]), added = m.immediate != 0 ? b : 0;
#pragma GCC ivdep
  for (std::int64_t i = 0, n = m.n; i < n; ++i) r[i] = static_cast<T>((a[i] * b + added) >> sizeof(T) * 8);
}
MicroFunction MultiplyUpperOf(RegisterType type) {
  switch (type) {
    case RegisterType::kU8:
      return MultiplyUpper<std::uint8_t>;
    case RegisterType::kU16:
      return MultiplyUpper<std::uint16_t>;
    case RegisterType::kU32:
      return MultiplyUpper<std::uint32_t>;
    case RegisterType::kU64:
      return MultiplyUpper<std::uint64_t>;
    default:
      return nullptr;
  }
}

}  // namespace

MicroFunction FindInteger(ScalarOp op, RegisterType type) {
  return ForInteger<MicroFunction>(type, [op](auto zero) { return FindFor<decltype(zero)>(op); });
}

MicroFunction FindIntegerFused(FusedOp op, RegisterType type) {
  const bool word = type == RegisterType::kS32 || type == RegisterType::kU32;
  const bool wide = type == RegisterType::kS64 || type == RegisterType::kU64;
  switch (op) {
    case FusedOp::kLogicalNot:
      return Unary<LogicalNot, std::uint8_t>;
    case FusedOp::kRotateLeft:
      return word ? RotateLeft<std::uint32_t> : wide ? RotateLeft<std::uint64_t> : nullptr;
    case FusedOp::kRotateXor:
      return word ? RotateXor<std::uint32_t> : wide ? RotateXor<std::uint64_t> : nullptr;
    case FusedOp::kMultiplyUpper:
      return MultiplyUpperOf(type);
    default:
      return nullptr;
  }
}

}  // namespace ipu_model::ISA_NAMESPACE
