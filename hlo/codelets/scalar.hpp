// The scalar operations of StableHLO, for generated codelets. Registers are float, or an integer of 8 to 64
// bits, or Complex (scalarComplex.hpp); predicates are 0 or 1.
#include <cmath>
#include <limits>
#include <type_traits>

#include "common.hpp"

namespace hlo {
namespace scalar {

// Arithmetic that wraps: signed overflow is undefined in C++, and narrow operands would be promoted to int.
template <typename T>
using Wrapping = typename std::conditional<
    std::is_floating_point<T>::value, T,
    typename std::conditional<sizeof(T) == 8, unsigned long long, unsigned>::type>::type;
template <typename T>
struct UnsignedOf {
  using type = typename std::make_unsigned<T>::type;
};
template <typename T>
using Unsigned = typename UnsignedOf<T>::type;

template <typename T>
T add(T a, T b) {
  return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
}
template <typename T>
T subtract(T a, T b) {
  return static_cast<T>(static_cast<Wrapping<T>>(a) - static_cast<Wrapping<T>>(b));
}
template <typename T>
T multiply(T a, T b) {
  return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
}
template <typename T>
T square(T a) {
  return multiply(a, a);
}
inline float negate(float a) { return -a; }
template <typename T>
T negate(T a) {
  return subtract(T{0}, a);
}
inline float abs(float a) { return bitsAs<float>(bitsAs<unsigned>(a) & 0x7fffffffu); }
template <typename T>
T abs(T a) {
  return a < 0 ? negate(a) : a;
}
inline float sign(float a) { return a > 0 ? 1.0f : a < 0 ? -1.0f : a; }  // keeps -0 and NaN
template <typename T>
T sign(T a) {
  return static_cast<T>(a > 0 ? 1 : a == 0 ? 0 : -1);
}
inline float fma(float a, float b, float c) { return std::fma(a, b, c); }

// Division by zero gives -1, all ones; the smallest integer divided by -1 is itself.
inline float divide(float a, float b) { return a / b; }
template <typename T>
T divide(T a, T b) {
  if (b == 0) return static_cast<T>(-1);
  if (std::is_signed<T>::value && b == static_cast<T>(-1)) return negate(a);
  return static_cast<T>(a / b);
}
// The remainder of a division by zero is the dividend.
inline float remainder(float a, float b) { return std::fmod(a, b); }
template <typename T>
T remainder(T a, T b) {
  if (b == 0) return a;
  if (std::is_signed<T>::value && b == static_cast<T>(-1)) return 0;
  return static_cast<T>(a % b);
}
// A negative exponent gives the truncated inverse: 0, unless the base is 1 or -1.
inline float power(float a, float b) { return std::pow(a, b); }
template <typename T>
T power(T base, T exponent) {
  if (exponent < 0)
    return static_cast<T>(base == 1 ? 1 : base == static_cast<T>(-1) ? (exponent & 1 ? -1 : 1) : 0);
  T result = 1;
  for (auto e = static_cast<Unsigned<T>>(exponent); e != 0; e = static_cast<Unsigned<T>>(e >> 1)) {
    if (e & 1) result = multiply(result, base);
    base = multiply(base, base);
  }
  return result;
}
// NaN if either is; +0 is larger than -0.
inline float maximum(float a, float b) {
  if (a != a) return a;
  if (a == b) return bitsAs<float>(bitsAs<unsigned>(a) & bitsAs<unsigned>(b));
  return a > b ? a : b;
}
inline float minimum(float a, float b) {
  if (a != a) return a;
  if (a == b) return bitsAs<float>(bitsAs<unsigned>(a) | bitsAs<unsigned>(b));
  return a < b ? a : b;
}
template <typename T>
T maximum(T a, T b) {
  return a > b ? a : b;
}
template <typename T>
T minimum(T a, T b) {
  return a < b ? a : b;
}
template <typename T>
T clamp(T low, T x, T high) {
  return minimum(maximum(x, low), high);
}
template <typename T>
T select(unsigned char predicate, T onTrue, T onFalse) {
  return predicate != 0 ? onTrue : onFalse;
}

template <typename T>
unsigned char eq(T a, T b) {
  return a == b;
}
template <typename T>
unsigned char ne(T a, T b) {
  return a != b;
}
template <typename T>
unsigned char lt(T a, T b) {
  return a < b;
}
template <typename T>
unsigned char le(T a, T b) {
  return a <= b;
}
template <typename T>
unsigned char gt(T a, T b) {
  return a > b;
}
template <typename T>
unsigned char ge(T a, T b) {
  return a >= b;
}
// The total order of IEEE 754: all bits but the sign of negative numbers are flipped.
inline int orderKey(float a) {
  const auto bits = bitsAs<int>(a);
  return bits ^ ((bits >> 31) & 0x7fffffff);
}
inline unsigned char totalLt(float a, float b) { return orderKey(a) < orderKey(b); }
template <typename T>
unsigned char totalLt(T a, T b) {
  return a < b;
}

// Bits of integers of `width` bits, which is less than that of the register for 2- and 4-bit types.
template <unsigned width, typename T>
Unsigned<T> lowBits(T a) {
  return static_cast<Unsigned<T>>(static_cast<Unsigned<T>>(a) &
                                  static_cast<Unsigned<T>>(~0ull >> (64 - width)));
}
template <unsigned width, typename T>
T wrap(T a) {
  constexpr unsigned unused = sizeof(T) * 8 - width;
  return static_cast<T>(static_cast<T>(static_cast<Unsigned<T>>(a) << unused) >> unused);
}
template <unsigned width, typename T>
T saturate(T a) {
  constexpr int high = (1 << (width - (std::is_signed<T>::value ? 1 : 0))) - 1;
  constexpr int low = std::is_signed<T>::value ? -high - 1 : 0;
  return static_cast<T>(a > high ? high : a < low ? low : a);
}
template <typename T>
T bitAnd(T a, T b) {
  return static_cast<T>(a & b);
}
template <typename T>
T bitOr(T a, T b) {
  return static_cast<T>(a | b);
}
template <typename T>
T bitXor(T a, T b) {
  return static_cast<T>(a ^ b);
}
template <typename T>
T bitNot(T a) {
  return static_cast<T>(~a);
}
template <unsigned width, typename T>
T shiftLeft(T a, T b) {
  const auto amount = static_cast<Unsigned<T>>(b);
  return amount < width ? static_cast<T>(static_cast<unsigned long long>(a) << amount) : T{0};
}
template <unsigned width, typename T>
T shiftRightLogical(T a, T b) {
  const auto amount = static_cast<Unsigned<T>>(b);
  return amount < width ? static_cast<T>(lowBits<width>(a) >> amount) : T{0};
}
template <unsigned width, typename T>
T shiftRightArithmetic(T a, T b) {
  const auto amount = static_cast<Unsigned<T>>(b);
  using Signed = typename std::make_signed<T>::type;
  const auto extended = static_cast<Signed>(wrap<width>(static_cast<Signed>(a)));
  return static_cast<T>(extended >> (amount < width ? amount : sizeof(T) * 8 - 1));
}
template <unsigned width, typename T>
T popcount(T a) {
  return static_cast<T>(__builtin_popcountll(lowBits<width>(a)));
}
template <unsigned width, typename T>
T leadingZeros(T a) {
  const unsigned long long bits = lowBits<width>(a);
  return static_cast<T>(bits == 0 ? width : static_cast<unsigned>(__builtin_clzll(bits)) - (64 - width));
}

// The device takes denormals for zero, in comparisons as well.
inline float flushed(float a) {
  return (bitsAs<unsigned>(a) & 0x7f800000u) != 0 ? a : bitsAs<float>(bitsAs<unsigned>(a) & 0x80000000u);
}
inline float ceil(float a) { return std::ceil(flushed(a)); }
inline float floor(float a) { return std::floor(flushed(a)); }
inline float trunc(float a) { return std::trunc(a); }
inline float roundEven(float a) { return std::rint(a); }
inline float roundAway(float a) { return std::round(a); }
inline float sqrt(float a) { return std::sqrt(a); }
inline float rsqrt(float a) { return 1.0f / std::sqrt(a); }
inline float inverse(float a) { return 1.0f / a; }
inline float cbrt(float a) { return std::cbrt(a); }
// Sine and cosine of what an angle has beyond a multiple of pi / 2, to an error of 1.5 units in the last
// place. The library's functions compute in f64, which the device has in software only: thousands of cycles
// for an element.
struct Turned {
  float sine, cosine;
  unsigned quarter;  // the multiple, in the low bits
};
constexpr float kLargestAngle = 1e5f;  // beyond it the multiple and the parts of pi / 2 have too few bits
inline Turned turned(float a) {
  constexpr float kRounding = 12582912;  // 1.5 * 2^23: a sum with it is a whole number, in its low bits
  const float shifted = fma(a, 0.636619747f, kRounding), n = shifted - kRounding;
  const float r = fma(-n, -1.71512451e-15f, fma(-n, -4.37113883e-8f, fma(-n, 1.57079637f, a))), u = r * r;
  const float s = fma(fma(fma(2.71812159e-6f, u, -1.98393122e-4f), u, 8.33332930e-3f), u, -0.166666672f);
  const float c = fma(fma(fma(2.43835669e-5f, u, -1.38866817e-3f), u, 4.16666204e-2f), u, -0.5f);
  return {fma(s, r * u, r), fma(c, u, 1.0f), bitsAs<unsigned>(shifted)};
}
// The sine of the angle and `quarters` more.
inline float sineAhead(const Turned& t, unsigned quarters) {
  const unsigned quarter = t.quarter + quarters;
  const float y = (quarter & 1u) != 0 ? t.cosine : t.sine;
  return bitsAs<float>(bitsAs<unsigned>(y) ^ (quarter << 30 & 0x80000000u));
}
inline float sin(float a) { return abs(a) < kLargestAngle ? sineAhead(turned(a), 0) : std::sin(a); }
inline float cos(float a) { return abs(a) < kLargestAngle ? sineAhead(turned(a), 1) : std::cos(a); }
inline float tan(float a) {
  if (!(abs(a) < kLargestAngle)) return std::tan(a);
  const Turned t = turned(a);
  return (t.quarter & 1u) != 0 ? -t.cosine / t.sine : t.sine / t.cosine;
}
inline float tanh(float a) { return std::tanh(a); }
inline float exp(float a) { return std::exp(a); }
inline float expm1(float a) { return std::expm1(a); }
inline float log(float a) { return std::log(a); }
inline float log1p(float a) { return std::log1p(a); }
inline float erf(float a) { return std::erf(a); }
inline float logistic(float a) { return 1.0f / (1.0f + std::exp(-a)); }
inline float atan2(float a, float b) { return std::atan2(a, b); }
inline unsigned char isFinite(float a) { return abs(a) < std::numeric_limits<float>::infinity(); }

// Fewer bits of exponent and mantissa, in the same type.
template <unsigned exponent, unsigned mantissa>
float reducePrecision(float a) {
  if (a != a) return mantissa > 0 ? a : std::numeric_limits<float>::infinity();
  const auto bits = bitsAs<unsigned>(a);
  const unsigned sign = bits & 0x80000000u, last = 1u << (23 - mantissa);
  unsigned rounded = bits;
  if (mantissa < 23) rounded = (bits + (last / 2 - 1) + ((bits & last) != 0 ? 1u : 0u)) & ~(last - 1);
  if (exponent < 8) {
    const unsigned field = rounded & 0x7f800000u, reduced = (1u << (exponent - 1)) - 1;
    if (field > ((127 + reduced) << 23)) return bitsAs<float>(sign | 0x7f800000u);
    if (field <= ((127 - reduced) << 23)) return bitsAs<float>(sign);
  }
  return bitsAs<float>(rounded);
}

// Conversions. Floats out of range saturate, NaN gives 0.
template <typename To>
To toInteger(float a) {
  constexpr float low = static_cast<float>(std::numeric_limits<To>::min());
  constexpr float beyond = static_cast<float>(std::numeric_limits<To>::max() / 2 + 1) * 2;
  if (a >= beyond) return std::numeric_limits<To>::max();
  if (a <= low) return std::numeric_limits<To>::min();
  return a == a ? static_cast<To>(a) : To{0};
}
template <typename To, typename From>
To convert(From a) {
  if constexpr (std::is_floating_point<From>::value && !std::is_floating_point<To>::value) {
    return toInteger<To>(a);
  } else {
    return static_cast<To>(a);
  }
}
template <typename T>
unsigned char toPredicate(T a) {
  return a != 0;
}
inline float roundHalf(float a) { return static_cast<float>(static_cast<half>(a)); }
inline float roundBfloat16(float a) { return fromBfloat16(toBfloat16(a)); }

}  // namespace scalar
}  // namespace hlo
