// Functions of complex numbers that call the C library, and block functions on the bit patterns of narrow
// floats. c64 is computed in f64, so that only the result is rounded.
#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>

#include "kernels/elementwise/program/micro_op.h"
#include "kernels/vector/convert.h"

namespace ipu_model {
namespace {

using Z = std::complex<double>;

Z Product(Z a, Z b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}
Z Sign(Z a) {
  const double magnitude = std::hypot(a.real(), a.imag());
  return magnitude == 0 ? a : Z(a.real() / magnitude, a.imag() / magnitude);
}
Z Expm1(Z a) {
  const double half = std::sin(a.imag() / 2);
  // On the real axis, an overflowing e^x times sin(0) would give a NaN imaginary part.
  const double imag = a.imag() == 0 ? a.imag() : std::exp(a.real()) * std::sin(a.imag());
  return {std::expm1(a.real()) * std::cos(a.imag()) - 2 * half * half, imag};
}
Z Log1p(Z a) {
  const double re = a.real(), im = a.imag();
  // |1 + a|^2 - 1 without cancellation near 0; the plain formula for large values.
  const double log_magnitude = std::abs(re) < 0.5 && std::abs(im) < 0.5
                                   ? 0.5 * std::log1p(re * (2 + re) + im * im)
                                   : std::log(std::hypot(1 + re, im));
  return {log_magnitude, std::atan2(im, 1 + re)};
}
Z Power(Z a, Z b) {
  if (b == Z(0)) return 1;
  if (a == Z(0)) return b.real() > 0 ? Z(0) : Z(std::pow(0.0, b.real()));
  return std::exp(Product(b, std::log(a)));
}
// StableHLO compares complex numbers lexicographically, not by magnitude.
bool Greater(Z a, Z b) { return a.real() == b.real() ? a.imag() > b.imag() : a.real() > b.real(); }
Z Maximum(Z a, Z b) { return Greater(a, b) ? a : b; }
Z Minimum(Z a, Z b) { return Greater(b, a) ? a : b; }
// Returns the angle of b + i a for complex a and b.
Z Atan2(Z a, Z b) {
  const Z i(0, 1);
  return -i * std::log((b + i * a) / std::sqrt(b * b + a * a));
}
Z Cbrt(Z a) { return Power(a, Z(1.0 / 3)); }
Z Logistic(Z a) { return 1.0 / (1.0 + std::exp(-a)); }
Z Exp(Z a) { return std::exp(a); }
Z Log(Z a) { return std::log(a); }
Z Sqrt(Z a) { return std::sqrt(a); }
Z Rsqrt(Z a) { return 1.0 / std::sqrt(a); }
Z Sin(Z a) { return std::sin(a); }
Z Cos(Z a) { return std::cos(a); }
// At both ends of the real axis the tangent has no limit, so both parts are NaN.
Z Tan(Z a) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  return std::isinf(a.real()) && a.imag() == 0 ? Z(kNan, kNan) : std::tan(a);
}
Z Tanh(Z a) { return std::tanh(a); }
Z Square(Z a) { return Product(a, a); }
Z Inverse(Z a) { return 1.0 / a; }
Z Divide(Z a, Z b) { return a / b; }

template <typename T>
Z Widen(std::complex<T> a) {
  return {static_cast<double>(a.real()), static_cast<double>(a.imag())};
}
template <typename T>
std::complex<T> Narrow(Z a) {
  return {static_cast<T>(a.real()), static_cast<T>(a.imag())};
}

template <typename T, Z (*F)(Z)>
void Unary(const MicroArguments& m) {
  const auto* a = static_cast<const std::complex<T>*>(m.operand[0]);
  auto* r = static_cast<std::complex<T>*>(m.result);
  for (std::int64_t i = 0, n = m.n; i < n; ++i) r[i] = Narrow<T>(F(Widen(a[i])));
}
template <typename T, Z (*F)(Z, Z)>
void Binary(const MicroArguments& m) {
  const auto* a = static_cast<const std::complex<T>*>(m.operand[0]);
  const auto* b = static_cast<const std::complex<T>*>(m.operand[1]);
  auto* r = static_cast<std::complex<T>*>(m.result);
  const std::int64_t a_step = (m.scalar & 1) == 0, b_step = (m.scalar & 2) == 0;
  for (std::int64_t i = 0, n = m.n; i < n; ++i)
    r[i] = Narrow<T>(F(Widen(a[i * a_step]), Widen(b[i * b_step])));
}
template <typename T, bool kEqual>
void Compare(const MicroArguments& m) {
  const auto* a = static_cast<const std::complex<T>*>(m.operand[0]);
  const auto* b = static_cast<const std::complex<T>*>(m.operand[1]);
  auto* r = static_cast<std::uint8_t*>(m.result);
  const std::int64_t a_step = (m.scalar & 1) == 0, b_step = (m.scalar & 2) == 0;
  for (std::int64_t i = 0, n = m.n; i < n; ++i) r[i] = (a[i * a_step] == b[i * b_step]) == kEqual;
}
template <typename T>
void IsFinite(const MicroArguments& m) {
  const T* a = static_cast<const T*>(m.operand[0]);
  auto* r = static_cast<std::uint8_t*>(m.result);
  for (std::int64_t i = 0, n = m.n; i < n; ++i) r[i] = std::isfinite(a[2 * i]) && std::isfinite(a[2 * i + 1]);
}

template <typename T>
MicroFunction FindFor(ScalarOp op) {
  switch (op) {
    case ScalarOp::kSign:
      return Unary<T, Sign>;
    case ScalarOp::kCbrt:
      return Unary<T, Cbrt>;
    case ScalarOp::kCos:
      return Unary<T, Cos>;
    case ScalarOp::kSin:
      return Unary<T, Sin>;
    case ScalarOp::kTan:
      return Unary<T, Tan>;
    case ScalarOp::kTanh:
      return Unary<T, Tanh>;
    case ScalarOp::kExp:
      return Unary<T, Exp>;
    case ScalarOp::kExpm1:
      return Unary<T, Expm1>;
    case ScalarOp::kLog:
      return Unary<T, Log>;
    case ScalarOp::kLog1p:
      return Unary<T, Log1p>;
    case ScalarOp::kLogistic:
      return Unary<T, Logistic>;
    case ScalarOp::kSqrt:
      return Unary<T, Sqrt>;
    case ScalarOp::kRsqrt:
      return Unary<T, Rsqrt>;
    case ScalarOp::kSquare:
      return Unary<T, Square>;
    case ScalarOp::kInverse:
      return Unary<T, Inverse>;
    case ScalarOp::kIsFinite:
      return IsFinite<T>;
    case ScalarOp::kDivide:
      return Binary<T, Divide>;
    case ScalarOp::kPower:
      return Binary<T, Power>;
    case ScalarOp::kAtan2:
      return Binary<T, Atan2>;
    case ScalarOp::kMaximum:
      return Binary<T, Maximum>;
    case ScalarOp::kMinimum:
      return Binary<T, Minimum>;
    case ScalarOp::kEq:
      return Compare<T, true>;
    case ScalarOp::kNe:
      return Compare<T, false>;
    default:
      return nullptr;
  }
}

// Returns the neighbour of `from` towards `to`. Both are sign-magnitude bit patterns with the sign at bit
// kBits - 1.
template <typename U>
U Step(U from, U to, U sign, bool towards_larger) {
  const U magnitude = static_cast<U>(from & (sign - 1));
  if (magnitude == 0) return static_cast<U>((to & sign) | 1);
  const bool negative = (from & sign) != 0;
  return static_cast<U>(negative == towards_larger ? from - 1 : from + 1);
}
template <typename T, typename Encoder>
void NextAfterLoop(const MicroArguments& m, Encoder&& next) {
  const T* a = static_cast<const T*>(m.operand[0]);
  const T* b = static_cast<const T*>(m.operand[1]);
  T* r = static_cast<T*>(m.result);
  const std::int64_t a_step = (m.scalar & 1) == 0, b_step = (m.scalar & 2) == 0;
  for (std::int64_t i = 0, n = m.n; i < n; ++i) {
    const T x = a[i * a_step], y = b[i * b_step];
    // Integer comparisons of bit patterns would tell denormals apart, which the float comparison flushes to
    // zero.
    r[i] = std::isnan(x) || std::isnan(y) ? x + y : next(x, y);
  }
}
template <typename U>
U NextCode(U from, U to, U sign) {
  if (from == to || ((from | to) & (sign - 1)) == 0) return to;
  const auto key = [sign](U code) {
    const auto magnitude = static_cast<std::int64_t>(code & (sign - 1));
    return (code & sign) != 0 ? -magnitude : magnitude;
  };
  return Step(from, to, sign, key(from) < key(to));
}
void NextAfterF32(const MicroArguments& m) {
  NextAfterLoop<float>(m, [](float x, float y) {
    return FloatOf(NextCode<std::uint32_t>(BitsOf(x), BitsOf(y), 0x80000000u));
  });
}
void NextAfterF64(const MicroArguments& m) {
  NextAfterLoop<double>(m, [](double x, double y) {
    return DoubleOf(NextCode<std::uint64_t>(BitsOf(x), BitsOf(y), std::uint64_t{1} << 63));
  });
}
void NextAfterBF16(const MicroArguments& m) {
  NextAfterLoop<float>(m, [](float x, float y) {
    return BF16ToF32(NextCode<std::uint16_t>(F32ToBF16(x), F32ToBF16(y), 0x8000));
  });
}
template <typename F>
void NextAfterNarrow(const MicroArguments& m) {
  using U = typename F::Storage;
  NextAfterLoop<float>(m, [](float x, float y) {
    return Decode<F>(NextCode<U>(Encode<F>(x), Encode<F>(y), static_cast<U>(F::kSign)));
  });
}

// Works on bit patterns, because the f32 value of an f16 denormal is a normal number. immediate: exponent
// bits << 8 | mantissa bits.
void ReducePrecisionF16(const MicroArguments& m) {
  constexpr unsigned kExponent = 5, kMantissa = 10, kBias = 15, kExponentMask = 0x7c00;
  const unsigned exponent = std::min(m.immediate >> 8, kExponent),
                 mantissa = std::min(m.immediate & 0xff, kMantissa);
  const unsigned last = 1u << (kMantissa - mantissa), half = mantissa < kMantissa ? (last >> 1) - 1 : 0;
  const unsigned reduced = (1u << (exponent - 1)) - 1;
  const auto* a = static_cast<const float*>(m.operand[0]);
  auto* r = static_cast<float*>(m.result);
  for (std::int64_t i = 0, n = m.n; i < n; ++i) {
    if (std::isnan(a[i])) {
      r[i] = mantissa > 0 ? a[i] : std::numeric_limits<float>::infinity();
      continue;
    }
    const unsigned code = F32ToF16(a[i]), sign = code & 0x8000;
    const unsigned odd = mantissa < kMantissa && (code & last) != 0 ? 1 : 0;
    unsigned rounded = (code + half + odd) & ~(last - 1);
    const unsigned field = rounded & kExponentMask;
    if (exponent < kExponent && field > (kBias + reduced) << kMantissa) rounded = sign | kExponentMask;
    if (exponent < kExponent && field <= (kBias - reduced) << kMantissa) rounded = sign;
    r[i] = F16ToF32(static_cast<std::uint16_t>(rounded));
  }
}

}  // namespace

MicroFunction FindReducePrecisionF16() { return ReducePrecisionF16; }

MicroFunction FindComplex(ScalarOp op, RegisterType type) {
  switch (type) {
    case RegisterType::kC64:
      return FindFor<float>(op);
    case RegisterType::kC128:
      return FindFor<double>(op);
    default:
      return nullptr;
  }
}

MicroFunction FindNextAfter(DType type) {
  if (type == DType::kF32) return NextAfterF32;
  if (type == DType::kF64) return NextAfterF64;
  if (type == DType::kBF16) return NextAfterBF16;
  MicroFunction result = nullptr;
  VisitFormat(type, [&](auto format) { result = NextAfterNarrow<decltype(format)>; });
  return result;
}

}  // namespace ipu_model
