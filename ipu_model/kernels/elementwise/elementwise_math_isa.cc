// Block functions: rounding and elementary functions on f32 and f64.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/elementwise/program/micro_loop.h"
#include "kernels/vector/convert.h"
#include "kernels/vector/vector_math.h"

namespace ipu_model::ISA_NAMESPACE {
namespace {

// Defines a functor per function: f32 uses the code in vector_math.h, f64 the C library.
#define JAX_IPU_ELEMENTARY(Name, f64)                           \
  struct Name##Op {                                             \
    static FloatVector Apply(FloatVector x) { return Name(x); } \
    static double Apply(double x) { return f64; }               \
  };
JAX_IPU_ELEMENTARY(Exp, ::exp(x))
JAX_IPU_ELEMENTARY(Expm1, ::expm1(x))
JAX_IPU_ELEMENTARY(Log, ::log(x))
JAX_IPU_ELEMENTARY(Log1p, ::log1p(x))
JAX_IPU_ELEMENTARY(Tanh, ::tanh(x))
JAX_IPU_ELEMENTARY(Logistic, 1.0 / (1.0 + ::exp(-x)))
JAX_IPU_ELEMENTARY(Erf, ::erf(x))
#undef JAX_IPU_ELEMENTARY

template <typename F, typename T>
void Elementary(const MicroArguments& m) {
  if constexpr (std::is_same_v<T, float>) {
    ForEachVector<F>(static_cast<const float*>(m.operand[0]), static_cast<float*>(m.result), m.n);
  } else {
    Unary<F, T>(m);
  }
}

#define JAX_IPU_UNARY(Name, f32, f64)             \
  struct Name##Op {                               \
    static float Apply(float x) { return f32; }   \
    static double Apply(double x) { return f64; } \
  };
JAX_IPU_UNARY(Cbrt, Cbrt(x), ::cbrt(x))
JAX_IPU_UNARY(Sqrt, __builtin_sqrtf(x), __builtin_sqrt(x))
JAX_IPU_UNARY(Rsqrt, 1.0f / __builtin_sqrtf(x), 1.0 / __builtin_sqrt(x))
// Denormals are zeros, as in comparisons: x < 0 ? ceil x : floor x must not be -1 for one.
JAX_IPU_UNARY(Ceil, __builtin_ceilf(x), __builtin_ceil(x))
JAX_IPU_UNARY(Floor, __builtin_floorf(x), __builtin_floor(x))
JAX_IPU_UNARY(Trunc, __builtin_truncf(x), __builtin_trunc(x))
JAX_IPU_UNARY(Rint, __builtin_rintf(x), __builtin_rint(x))
#undef JAX_IPU_UNARY

// Rounds half away from zero. Adding 1/2 first would round 0.49999997 up.
struct RoundAwayOp {
  static float Apply(float x) {
    const float t = __builtin_truncf(x);
    return WithSign(AbsOf(t) + (AbsOf(x - t) >= 0.5f ? 1.0f : 0.0f), x);
  }
  static double Apply(double x) {
    const double t = __builtin_trunc(x);
    return __builtin_copysign(AbsOf(t) + (AbsOf(x - t) >= 0.5 ? 1.0 : 0.0), x);
  }
};
struct IsFiniteOp {
  static std::uint8_t Apply(float x) { return AbsOf(x) < kInfinity; }
  static std::uint8_t Apply(double x) { return AbsOf(x) < static_cast<double>(kInfinity); }
};

// Most arguments take the vector path. Arguments that `Easy` refuses are replaced on that path, and then
// computed by the C library. Works on copies, because the result may overwrite the operand.
constexpr std::int64_t kPiece = 256;

template <float (*Fast)(float), float (*Slow)(float)>
void Trigonometric(const MicroArguments& m) {
  const auto* a = static_cast<const float*>(m.operand[0]);
  auto* r = static_cast<float*>(m.result);
  if (m.n == 1) {  // a step of a loop on scalars
    *r = AbsOf(*a) < kLargestAngle ? Fast(*a) : Slow(*a);
    return;
  }
  float x[kPiece];
  for (std::int64_t begin = 0; begin < m.n; begin += kPiece) {
    const std::int64_t n = std::min(kPiece, m.n - begin);
    int hard = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      x[i] = a[begin + i];
      hard |= !(AbsOf(x[i]) < kLargestAngle);
    }
    for (std::int64_t i = 0; i < n; ++i) r[begin + i] = Fast(AbsOf(x[i]) < kLargestAngle ? x[i] : 0.0f);
    for (std::int64_t i = 0; hard != 0 && i < n; ++i)
      if (!(AbsOf(x[i]) < kLargestAngle)) r[begin + i] = Slow(x[i]);
  }
}

// Where Unfinished(x), Fast is of the size of x, and Finish makes the result of it.
template <typename F>
void BinaryWithHardCases(const MicroArguments& m) {
  const auto* a = static_cast<const float*>(m.operand[0]);
  const auto* b = static_cast<const float*>(m.operand[1]);
  auto* r = static_cast<float*>(m.result);
  const bool one_a = (m.scalar & 1) != 0, one_b = (m.scalar & 2) != 0;
  float x[kPiece], y[kPiece], fast[kPiece];
  if (one_a) std::fill_n(x, std::min(kPiece, m.n), *a);
  if (one_b) std::fill_n(y, std::min(kPiece, m.n), *b);
  for (std::int64_t begin = 0; begin < m.n; begin += kPiece) {
    const std::int64_t n = std::min(kPiece, m.n - begin);
    if (!one_a) std::copy_n(a + begin, n, x);
    if (!one_b) std::copy_n(b + begin, n, y);
    int hard = 0, unfinished = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      hard |= F::Easy(x[i], y[i]) ? 0 : 1;
      unfinished |= F::Unfinished(x[i]);
    }
    if (hard == 0 && unfinished == 0) {
      for (std::int64_t i = 0; i < n; ++i) r[begin + i] = F::Fast(x[i], y[i]);
    } else if (hard == 0) {
      for (std::int64_t i = 0; i < n; ++i) fast[i] = F::Fast(x[i], y[i]);
      for (std::int64_t i = 0; i < n; ++i) r[begin + i] = F::Finish(x[i], y[i], fast[i]);
    } else {
      for (std::int64_t i = 0; i < n; ++i)
        r[begin + i] = F::Easy(x[i], y[i]) ? F::Finish(x[i], y[i], F::Fast(x[i], y[i])) : F::Slow(x[i], y[i]);
    }
  }
}
struct PowerOp {
  static bool Easy(float x, float y) {
    return static_cast<int>(AbsOf(x) >= 1.17549435e-38f) & static_cast<int>(AbsOf(x) < kInfinity) &
           static_cast<int>(AbsOf(y) < kInfinity);
  }
  static float Fast(float x, float y) { return PowerOfPositive(AbsOf(x), y); }
  static int Unfinished(float x) { return static_cast<int>(x < 0.0f); }
  static float Finish(float x, float y, float power) {
    // In bits, without branches, which half of the numbers would take. All floats from 2^24 on are even.
    const std::uint32_t is_small = (BitsOf(y) & 0x7fffffffu) < 0x4b800000u ? ~0u : 0u;
    const float small = FloatOf(BitsOf(y) & is_small);
    const auto whole = static_cast<std::int32_t>(small);
    const std::uint32_t fraction = (BitsOf(static_cast<float>(whole)) ^ BitsOf(small)) << 1;  // 0 without one
    const std::uint32_t with_sign = BitsOf(power) | static_cast<std::uint32_t>(whole) << 31;
    const std::uint32_t of_negative = fraction == 0 ? with_sign : 0x7fc00000u;
    const auto negative = static_cast<std::uint32_t>(static_cast<std::int32_t>(BitsOf(x)) >> 31);
    return FloatOf((of_negative & negative) | (BitsOf(power) & ~negative));
  }
  static float Slow(float x, float y) { return ::powf(x, y); }
};
struct Atan2Op {
  static bool Easy(float y, float x) {
    return static_cast<int>(AbsOf(y) < kInfinity) & static_cast<int>(AbsOf(x) < kInfinity) &
           static_cast<int>(AbsOf(x) + AbsOf(y) > 0.0f);
  }
  static float Fast(float y, float x) { return Atan2OfFinite(y, x); }
  static int Unfinished(float) { return 0; }
  static float Finish(float, float, float angle) { return angle; }
  static float Slow(float y, float x) { return ::atan2f(y, x); }
};
struct RemainderOp {
  static bool Easy(float x, float y) {
    const double a = static_cast<double>(AbsOf(x)), b = static_cast<double>(AbsOf(y));
    return static_cast<int>(a < b * kLargestQuotient) & static_cast<int>(AbsOf(x) < kInfinity) &
           static_cast<int>(AbsOf(y) < kInfinity);
  }
  static float Fast(float x, float y) { return RemainderOfNear(x, y); }
  static int Unfinished(float) { return 0; }
  static float Finish(float, float, float remainder) { return remainder; }
  static float Slow(float x, float y) { return ::fmodf(x, y); }
};

template <double (*F)(double)>
void Library(const MicroArguments& m) {
  const auto* a = static_cast<const double*>(m.operand[0]);
  auto* r = static_cast<double*>(m.result);
  for (std::int64_t i = 0, n = m.n; i < n; ++i) r[i] = F(a[i]);
}
template <double (*F)(double, double)>
void Library2(const MicroArguments& m) {
  const auto* a = static_cast<const double*>(m.operand[0]);
  const auto* b = static_cast<const double*>(m.operand[1]);
  auto* r = static_cast<double*>(m.result);
  const std::int64_t a_step = (m.scalar & 1) != 0 ? 0 : 1, b_step = (m.scalar & 2) != 0 ? 0 : 1;
  for (std::int64_t i = 0, n = m.n; i < n; ++i) r[i] = F(a[i * a_step], b[i * b_step]);
}

// immediate: exponent bits << 8 | mantissa bits.
template <typename T, typename U, int kExponent, int kMantissa>
void ReducePrecision(const MicroArguments& m) {
  const auto* a = static_cast<const T*>(m.operand[0]);
  auto* r = static_cast<T*>(m.result);
  const int exponent = std::min(static_cast<int>(m.immediate >> 8), kExponent);
  const int mantissa = std::min(static_cast<int>(m.immediate & 0xff), kMantissa);
  constexpr U kOne = 1, kExponentMask = ((kOne << kExponent) - 1) << kMantissa;
  const U last = kOne << (kMantissa - mantissa), base = mantissa < kMantissa ? (last >> 1) - 1 : 0;
  const U odd = mantissa < kMantissa ? last : 0;
  const U bias = (kOne << (kExponent - 1)) - 1, reduced = (kOne << (exponent - 1)) - 1;
  const U largest = (bias + reduced) << kMantissa, smallest = (bias - reduced) << kMantissa;
  const bool narrow = exponent < kExponent;
  constexpr T kInfinityOf = std::numeric_limits<T>::infinity();
#pragma GCC ivdep
  for (std::int64_t i = 0, n = m.n; i < n; ++i) {
    const T x = a[i];
    const U bits = BitsOf(x), sign = bits & ~(~U{0} >> 1);
    U rounded = (bits + base + ((bits & odd) != 0 ? kOne : U{0})) & ~(last - 1);
    const U field = rounded & kExponentMask;
    rounded = narrow && field > largest ? sign | kExponentMask : rounded;
    rounded = narrow && field <= smallest ? sign : rounded;
    T result;
    if constexpr (sizeof(T) == 4) {
      result = FloatOf(rounded);
    } else {
      result = DoubleOf(rounded);
    }
    // A format without mantissa bits has no NaN.
    r[i] = x != x ? (mantissa > 0 ? x : kInfinityOf) : result;
  }
}

template <typename T>
MicroFunction FindCommon(ScalarOp op) {
  switch (op) {
    case ScalarOp::kExp:
      return Elementary<ExpOp, T>;
    case ScalarOp::kExpm1:
      return Elementary<Expm1Op, T>;
    case ScalarOp::kLog:
      return Elementary<LogOp, T>;
    case ScalarOp::kLog1p:
      return Elementary<Log1pOp, T>;
    case ScalarOp::kTanh:
      return Elementary<TanhOp, T>;
    case ScalarOp::kLogistic:
      return Elementary<LogisticOp, T>;
    case ScalarOp::kCbrt:
      return Unary<CbrtOp, T>;
    case ScalarOp::kErf:
      return Elementary<ErfOp, T>;
    case ScalarOp::kSqrt:
      return Unary<SqrtOp, T>;
    case ScalarOp::kRsqrt:
      return Unary<RsqrtOp, T>;
    case ScalarOp::kCeil:
      return Unary<CeilOp, T>;
    case ScalarOp::kFloor:
      return Unary<FloorOp, T>;
    case ScalarOp::kTrunc:
      return Unary<TruncOp, T>;
    case ScalarOp::kRoundNearestEven:
      return Unary<RintOp, T>;
    case ScalarOp::kRoundNearestAfz:
      return Unary<RoundAwayOp, T>;
    case ScalarOp::kIsFinite:
      return Unary<IsFiniteOp, T, std::uint8_t>;
    default:
      return nullptr;
  }
}

}  // namespace

MicroFunction FindMath(ScalarOp op, RegisterType type) {
  if (type == RegisterType::kF32) {
    switch (op) {
      case ScalarOp::kSin:
        return Trigonometric<Sin, ::sinf>;
      case ScalarOp::kCos:
        return Trigonometric<Cos, ::cosf>;
      case ScalarOp::kTan:
        return Trigonometric<Tan, ::tanf>;
      case ScalarOp::kPower:
        return BinaryWithHardCases<PowerOp>;
      case ScalarOp::kAtan2:
        return BinaryWithHardCases<Atan2Op>;
      case ScalarOp::kRemainder:
        return BinaryWithHardCases<RemainderOp>;
      case ScalarOp::kReducePrecision:
        return ReducePrecision<float, std::uint32_t, 8, 23>;
      default:
        return FindCommon<float>(op);
    }
  }
  if (type == RegisterType::kF64) {
    switch (op) {
      case ScalarOp::kSin:
        return Library<::sin>;
      case ScalarOp::kCos:
        return Library<::cos>;
      case ScalarOp::kTan:
        return Library<::tan>;
      case ScalarOp::kPower:
        return Library2<::pow>;
      case ScalarOp::kAtan2:
        return Library2<::atan2>;
      case ScalarOp::kRemainder:
        return Library2<::fmod>;
      case ScalarOp::kReducePrecision:
        return ReducePrecision<double, std::uint64_t, 11, 52>;
      default:
        return FindCommon<double>(op);
    }
  }
  return nullptr;
}

}  // namespace ipu_model::ISA_NAMESPACE
