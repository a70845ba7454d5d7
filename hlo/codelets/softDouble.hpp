// float64 by integers of 64 bits, for devices without it: results are rounded to nearest even, once, as IEEE
// 754 says. Denormal numbers count as zero, as everywhere on the device; a NaN is the quiet one. Text after
// scalar.hpp.
#include "softSmall.hpp"

namespace hlo {

struct Double {
  unsigned long long bits;
};

namespace scalar {

using Word = unsigned long long;
constexpr Word kSign64 = 1ull << 63, kInfinity64 = 0x7ffull << 52, kNan64 = 0x7ff8ull << 48,
               kFraction64 = (1ull << 52) - 1;

inline Word magnitude(Double a) { return a.bits & ~kSign64; }
inline int exponentOf(Double a) { return static_cast<int>(magnitude(a) >> 52); }
inline bool isNan(Double a) { return magnitude(a) > kInfinity64; }
inline bool isInfinite(Double a) { return magnitude(a) == kInfinity64; }
inline bool isZero(Double a) { return exponentOf(a) == 0; }
inline Word significand(Double a) { return (a.bits & kFraction64) | 1ull << 52; }
inline int leadingBit(Word m) { return 63 - __builtin_clzll(m); }

// The number with the leading bit of m, which is bit 62, at 2^(exponent - 1023). The lowest bit of m stands
// for all that are lost.
inline Double pack(Word sign, int exponent, Word m) {
  const Word rest = m & 0x3ff;
  Word q = m >> 10;
  if (rest > 0x200 || (rest == 0x200 && (q & 1) != 0)) ++q;
  if ((q >> 53) != 0) {
    q >>= 1;
    ++exponent;
  }
  if (exponent >= 0x7ff) return {sign | kInfinity64};
  if (exponent <= 0) return {sign};
  return {sign | static_cast<Word>(exponent) << 52 | (q & kFraction64)};
}

inline Double negate(Double a) { return {a.bits ^ kSign64}; }
inline Double abs(Double a) { return {magnitude(a)}; }

inline Double add(Double a, Double b) {
  if (isNan(a) || isNan(b)) return {kNan64};
  if (isInfinite(a)) return isInfinite(b) && a.bits != b.bits ? Double{kNan64} : a;
  if (isInfinite(b)) return b;
  if (isZero(a) && isZero(b)) return {a.bits & b.bits & kSign64};
  if (isZero(a)) return b;
  if (isZero(b)) return a;
  if (magnitude(a) < magnitude(b)) {
    const Double swapped = a;
    a = b;
    b = swapped;
  }
  const Word sign = a.bits & kSign64, larger = significand(a) << 9;
  Word smaller = significand(b) << 9;
  const int distance = exponentOf(a) - exponentOf(b);
  if (distance > 62) {
    smaller = 1;
  } else if (distance > 0) {
    smaller = smaller >> distance | ((smaller & ((1ull << distance) - 1)) != 0 ? 1 : 0);
  }
  const Word sum = ((a.bits ^ b.bits) & kSign64) == 0 ? larger + smaller : larger - smaller;
  if (sum == 0) return {0};
  const int leading = leadingBit(sum);
  return pack(sign, exponentOf(a) + leading - 61, sum << (62 - leading));
}
inline Double subtract(Double a, Double b) { return add(a, isNan(b) ? b : negate(b)); }

inline Double multiply(Double a, Double b) {
  if (isNan(a) || isNan(b)) return {kNan64};
  const Word sign = (a.bits ^ b.bits) & kSign64;
  if (isInfinite(a) || isInfinite(b))
    return isZero(a) || isZero(b) ? Double{kNan64} : Double{sign | kInfinity64};
  if (isZero(a) || isZero(b)) return {sign};
  const Word x = significand(a) << 11, y = significand(b) << 11, low = 0xffffffffu;
  const Word middle1 = (x >> 32) * (y & low), middle2 = (x & low) * (y >> 32), bottom = (x & low) * (y & low);
  const Word carried = (bottom >> 32) + (middle1 & low) + (middle2 & low);
  const Word high = (x >> 32) * (y >> 32) + (middle1 >> 32) + (middle2 >> 32) + (carried >> 32);
  const Word lost = (carried << 32 | (bottom & low)) != 0 ? 1 : 0;
  const int exponent = exponentOf(a) + exponentOf(b) - 1023;
  if ((high >> 63) != 0) return pack(sign, exponent + 1, high >> 1 | (high & 1) | lost);
  return pack(sign, exponent, high | lost);
}
inline Double square(Double a) { return multiply(a, a); }

inline Double divide(Double a, Double b) {
  if (isNan(a) || isNan(b)) return {kNan64};
  const Word sign = (a.bits ^ b.bits) & kSign64;
  if (isInfinite(a)) return isInfinite(b) ? Double{kNan64} : Double{sign | kInfinity64};
  if (isInfinite(b)) return {sign};
  if (isZero(b)) return isZero(a) ? Double{kNan64} : Double{sign | kInfinity64};
  if (isZero(a)) return {sign};
  Word rest = significand(a), quotient = 0;
  const Word by = significand(b);
  int exponent = exponentOf(a) - exponentOf(b) + 1023;
  if (rest < by) {
    rest <<= 1;
    --exponent;
  }
  for (int i = 0; i < 63; ++i) {
    quotient <<= 1;
    if (rest >= by) {
      rest -= by;
      quotient |= 1;
    }
    rest <<= 1;
  }
  return pack(sign, exponent, quotient | (rest != 0 ? 1 : 0));
}
inline Double inverse(Double a) { return divide({1023ull << 52}, a); }

inline Double sqrt(Double a) {
  if (isZero(a)) return {a.bits & kSign64};
  if (isNan(a) || (a.bits & kSign64) != 0) return {kNan64};
  if (isInfinite(a)) return a;
  const int exponent = exponentOf(a) - 1023, odd = exponent & 1;
  const Word radicand = significand(a) << odd;  // in [1, 4), with 52 places
  Word root = 0, rest = 0;
  for (int i = 0; i < 55; ++i) {
    const int place = 52 - 2 * i;
    rest = rest << 2 | (place >= 0 ? radicand >> place & 3 : 0);
    const Word trial = root << 2 | 1;
    root <<= 1;
    if (rest >= trial) {
      rest -= trial;
      root |= 1;
    }
  }
  return pack(0, (exponent - odd) / 2 + 1023, root << 8 | (rest != 0 ? 1 : 0));
}
inline Double rsqrt(Double a) { return inverse(sqrt(a)); }

// The remainder with the sign of a, which is exact.
inline Double remainder(Double a, Double b) {
  if (isNan(a) || isNan(b) || isInfinite(a) || isZero(b)) return {kNan64};
  if (isZero(a) || magnitude(a) < magnitude(b)) return a;
  Word rest = significand(a);
  const Word by = significand(b);
  for (int k = exponentOf(a) - exponentOf(b); k >= 0; --k) {
    if (rest >= by) rest -= by;
    if (k > 0) rest <<= 1;
  }
  if (rest == 0) return {a.bits & kSign64};
  const int leading = leadingBit(rest);
  return pack(a.bits & kSign64, exponentOf(b) + leading - 52, rest << (62 - leading));
}

// Both zeros are equal; NaN is equal to nothing.
inline long long orderOf(Double a) {
  if (isZero(a)) return 0;
  return (a.bits & kSign64) != 0 ? -static_cast<long long>(magnitude(a))
                                 : static_cast<long long>(magnitude(a));
}
inline unsigned char eq(Double a, Double b) { return !isNan(a) && !isNan(b) && orderOf(a) == orderOf(b); }
inline unsigned char ne(Double a, Double b) { return eq(a, b) ^ 1; }
inline unsigned char lt(Double a, Double b) { return !isNan(a) && !isNan(b) && orderOf(a) < orderOf(b); }
inline unsigned char le(Double a, Double b) { return !isNan(a) && !isNan(b) && orderOf(a) <= orderOf(b); }
inline unsigned char gt(Double a, Double b) { return lt(b, a); }
inline unsigned char ge(Double a, Double b) { return le(b, a); }
inline long long orderKey(Double a) {
  const auto bits = static_cast<long long>(a.bits);
  return bits ^ ((bits >> 63) & 0x7fffffffffffffffll);
}
inline unsigned char totalLt(Double a, Double b) { return orderKey(a) < orderKey(b); }
inline unsigned char isFinite(Double a) { return magnitude(a) < kInfinity64; }
inline unsigned char toPredicate(Double a) { return isNan(a) || !isZero(a); }

inline Double sign(Double a) {
  if (isNan(a) || isZero(a)) return a;
  return {(a.bits & kSign64) | 1023ull << 52};
}
inline Double maximum(Double a, Double b) {
  if (isNan(a)) return a;
  if (eq(a, b)) return {a.bits & b.bits};
  return gt(a, b) ? a : b;
}
inline Double minimum(Double a, Double b) {
  if (isNan(a)) return a;
  if (eq(a, b)) return {a.bits | b.bits};
  return lt(a, b) ? a : b;
}
inline Double clamp(Double low, Double x, Double high) { return minimum(maximum(x, low), high); }

// Whole numbers. Denormals are zeros, as in scalar.hpp.
inline Double trunc(Double a) {
  const int exponent = exponentOf(a) - 1023;
  if (exponent >= 52) return a;
  if (exponent < 0) return {a.bits & kSign64};
  return {a.bits & ~(kFraction64 >> exponent)};
}
inline Double oneMore(Double a) { return add(a, {(a.bits & kSign64) | 1023ull << 52}); }
inline Double floor(Double a) {
  const Double t = trunc(a);
  return isNan(a) || t.bits == a.bits || (a.bits & kSign64) == 0 || exponentOf(a) == 0 ? t : oneMore(t);
}
inline Double ceil(Double a) {
  const Double t = trunc(a);
  return isNan(a) || t.bits == a.bits || (a.bits & kSign64) != 0 || exponentOf(a) == 0 ? t : oneMore(t);
}
inline Double roundTo(Double a, bool even) {
  const int exponent = exponentOf(a) - 1023;
  if (exponent >= 52 || exponent < -1) return exponent >= 52 ? a : Double{a.bits & kSign64};
  const Double t = trunc(a);
  const Word twice = 1ull << 63, part = exponent < 0 ? (significand(a) << 11) >> 1 : 0;
  // The part that is cut off, as a fraction of 2^64.
  const Word cut = exponent < 0 ? part << 1 : (a.bits & (kFraction64 >> exponent)) << (12 + exponent);
  const bool isOdd = exponent >= 0 && (significand(a) >> (52 - exponent) & 1) != 0;
  const bool up = cut > twice || (cut == twice && (!even || isOdd));
  return up ? oneMore(t) : t;
}
inline Double roundEven(Double a) { return roundTo(a, true); }
inline Double roundAway(Double a) { return roundTo(a, false); }

inline Double toDouble(float a) {
  const auto bits = bitsAs<unsigned>(a);
  const Word sign = static_cast<Word>(bits >> 31) << 63, fraction = bits & 0x7fffffu;
  const unsigned exponent = bits >> 23 & 0xff;
  if (exponent == 0xff) return {fraction != 0 ? sign | kNan64 : sign | kInfinity64};
  if (exponent == 0) return {sign};
  return {sign | static_cast<Word>(exponent + 896) << 52 | fraction << 29};
}
template <typename T>
Double toDouble(T a) {
  if (a == 0) return {0};
  const bool negative = a < 0;
  const Word m = negative ? 0 - static_cast<Word>(a) : static_cast<Word>(a);
  const int leading = leadingBit(m);
  const Word placed = leading == 63 ? m >> 1 | (m & 1) : m << (62 - leading);
  return pack(negative ? kSign64 : 0, leading + 1023, placed);
}
// Rounded to nearest even, or to odd: then a second rounding to fewer bits is exact.
inline float toFloat(Double a, bool odd = false) {
  const unsigned sign = static_cast<unsigned>(a.bits >> 63) << 31;
  if (isNan(a)) return bitsAs<float>(sign | 0x7fc00000u);
  const int exponent = exponentOf(a) - 896;
  if (exponent >= 0xff) return bitsAs<float>(odd && !isInfinite(a) ? sign | 0x7f7fffffu : sign | 0x7f800000u);
  if (exponent < 0 || isZero(a)) return bitsAs<float>(sign);
  const Word m = magnitude(a) - (896ull << 52), rest = m & 0x1fffffffu;
  auto code = static_cast<unsigned>(m >> 29);
  if (odd) {
    if (rest != 0) code |= 1;
  } else if (rest > 0x10000000u || (rest == 0x10000000u && (code & 1) != 0)) {
    ++code;
  }
  return bitsAs<float>(code < 0x00800000u ? sign : sign | code);
}
template <typename To>
To toInteger(Double a) {
  if (isNan(a) || exponentOf(a) < 1023) return To{0};
  const bool negative = (a.bits & kSign64) != 0;
  const int exponent = exponentOf(a) - 1023;
  constexpr bool isSigned = std::is_signed<To>::value;
  if (negative && !isSigned) return To{0};
  constexpr int width = static_cast<int>(sizeof(To)) * 8 - (isSigned ? 1 : 0);
  if (exponent >= width) return negative ? std::numeric_limits<To>::min() : std::numeric_limits<To>::max();
  const Word m = exponent >= 52 ? significand(a) << (exponent - 52) : significand(a) >> (52 - exponent);
  return static_cast<To>(negative ? 0 - m : m);
}

template <unsigned exponent, unsigned mantissa>
Double reducePrecision(Double a) {
  if (isNan(a)) return mantissa > 0 ? a : Double{kInfinity64};
  const Word sign = a.bits & kSign64, last = 1ull << (52 - mantissa);
  Word rounded = a.bits;
  if (mantissa < 52) rounded = (a.bits + (last / 2 - 1) + ((a.bits & last) != 0 ? 1u : 0u)) & ~(last - 1);
  if (exponent < 11) {
    const Word field = rounded & kInfinity64, reduced = (1ull << (exponent - 1)) - 1;
    if (field > ((1023 + reduced) << 52)) return {sign | kInfinity64};
    if (field <= ((1023 - reduced) << 52)) return {sign};
  }
  return {rounded};
}

}  // namespace scalar
}  // namespace hlo
