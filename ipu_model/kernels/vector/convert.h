// Conversions between f32 and the narrow float formats, one element at a time, without branches, so that
// loops over them vectorise. They round to nearest even; overflow, infinities and NaN are as in XLA and
// ml_dtypes. All functions are `static`: the header is compiled for several instruction sets, and the linker
// must not merge them.
#ifndef IPU_MODEL_KERNELS_VECTOR_CONVERT_H_
#define IPU_MODEL_KERNELS_VECTOR_CONVERT_H_

#include <cstdint>
#include <cstring>

#include "ipu_model/Types.hpp"

namespace ipu_model {

static inline std::uint32_t BitsOf(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  return bits;
}
static inline float FloatOf(std::uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}
static inline std::uint64_t BitsOf(double x) {
  std::uint64_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  return bits;
}
static inline double DoubleOf(std::uint64_t bits) {
  double x;
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}

// How a format represents overflow, infinity and NaN.
enum class Special {
  kIeee,          // infinities and NaN as in f16
  kNanOnly,       // "fn": all ones is NaN, no infinity
  kUnsignedZero,  // "fnuz": no -0; its bit pattern is the only NaN
  kFinite,        // "fn" of 4 bits: saturates
};

// A format with storage type S: 1 sign bit, then exponent and mantissa.
template <typename S, int kExponent, int kMantissa, int kBiasValue, Special kSpecialValue>
struct Format {
  using Storage = S;
  static constexpr int kBits = 1 + kExponent + kMantissa;
  static constexpr int kMantissaBits = kMantissa;
  static constexpr int kBias = kBiasValue;
  static constexpr Special kSpecial = kSpecialValue;
  static constexpr std::uint32_t kSign = 1u << (kBits - 1);
  static constexpr std::uint32_t kInfinity = ((1u << kExponent) - 1) << kMantissa;  // kIeee only
  static constexpr std::uint32_t kNan = kSpecial == Special::kIeee      ? kInfinity | 1u << (kMantissa - 1)
                                        : kSpecial == Special::kNanOnly ? kSign - 1
                                                                        : kSign;
  static constexpr std::uint32_t kLargest = kSpecial == Special::kIeee      ? kInfinity - 1
                                            : kSpecial == Special::kNanOnly ? kNan - 1
                                                                            : kSign - 1;
  static constexpr std::uint32_t kOverflow = kSpecial == Special::kIeee     ? kInfinity
                                             : kSpecial == Special::kFinite ? kLargest
                                                                            : kNan;
};

using F16Format = Format<std::uint16_t, 5, 10, 15, Special::kIeee>;
using F4E2M1FNFormat = Format<std::uint8_t, 2, 1, 1, Special::kFinite>;
using F8E3M4Format = Format<std::uint8_t, 3, 4, 3, Special::kIeee>;
using F8E4M3Format = Format<std::uint8_t, 4, 3, 7, Special::kIeee>;
using F8E4M3FNFormat = Format<std::uint8_t, 4, 3, 7, Special::kNanOnly>;
using F8E4M3FNUZFormat = Format<std::uint8_t, 4, 3, 8, Special::kUnsignedZero>;
using F8E4M3B11FNUZFormat = Format<std::uint8_t, 4, 3, 11, Special::kUnsignedZero>;
using F8E5M2Format = Format<std::uint8_t, 5, 2, 15, Special::kIeee>;
using F8E5M2FNUZFormat = Format<std::uint8_t, 5, 2, 16, Special::kUnsignedZero>;

template <typename F>
static inline typename F::Storage Encode(float x) {
  constexpr int kShift = 23 - F::kMantissaBits;
  constexpr std::uint32_t kRebias = static_cast<std::uint32_t>(127 - F::kBias);
  const std::uint32_t bits = BitsOf(x), magnitude = bits & 0x7fffffffu;
  const std::uint32_t sign = (bits >> 31) * F::kSign;
  // Normal numbers: round the mantissa in place. A carry into the exponent gives the correct result.
  const std::uint32_t rounded = magnitude + ((1u << (kShift - 1)) - 1) + ((magnitude >> kShift) & 1);
  const std::uint32_t normal = (rounded >> kShift) - (kRebias << F::kMantissaBits);
  // Subnormal numbers: adding this power of two makes the FPU round at the format's last place.
  constexpr std::uint32_t kMagic = (kRebias + 1 + static_cast<std::uint32_t>(kShift)) << 23;
  const std::uint32_t subnormal = BitsOf(FloatOf(magnitude) + FloatOf(kMagic)) - kMagic;
  std::uint32_t code = magnitude < ((kRebias + 1) << 23) ? subnormal : normal;
  code = magnitude >= 0x7f800000u || (magnitude >= ((kRebias + 1) << 23) && normal > F::kLargest)
             ? F::kOverflow
             : code;
  code = magnitude > 0x7f800000u ? F::kNan : code;
  if (F::kSpecial == Special::kUnsignedZero) {
    return static_cast<typename F::Storage>(code == 0 || code == F::kNan ? code : code | sign);
  }
  if (F::kSpecial == Special::kFinite) {
    return static_cast<typename F::Storage>(magnitude > 0x7f800000u ? F::kNan : code | sign);
  }
  return static_cast<typename F::Storage>(code | sign);
}

template <typename F>
static inline float Decode(typename F::Storage storage) {
  constexpr std::uint32_t kRebias = static_cast<std::uint32_t>(127 - F::kBias);
  const std::uint32_t code = storage & (2 * F::kSign - 1), magnitude = code & (F::kSign - 1);
  const std::uint32_t sign = (code & F::kSign) << (32 - F::kBits);
  const std::uint32_t normal = (magnitude << (23 - F::kMantissaBits)) + (kRebias << 23);
  const float subnormal = static_cast<float>(static_cast<std::int32_t>(magnitude)) *
                          FloatOf(static_cast<std::uint32_t>(128 - F::kBias - F::kMantissaBits) << 23);
  std::uint32_t result = magnitude < (1u << F::kMantissaBits) ? BitsOf(subnormal) : normal;
  if (F::kSpecial == Special::kIeee) {
    const std::uint32_t special = 0x7f800000u | (magnitude << (23 - F::kMantissaBits) & 0x7fffffu);
    result = magnitude >= F::kInfinity ? special : result;
  } else if (F::kSpecial == Special::kNanOnly) {
    result = magnitude == F::kNan ? 0x7fc00000u : result;
  } else if (F::kSpecial == Special::kUnsignedZero) {
    return FloatOf(code == F::kNan ? 0x7fc00000u : result | sign);
  }
  return FloatOf(result | sign);
}

static inline std::uint16_t F32ToF16(float x) { return Encode<F16Format>(x); }
static inline float F16ToF32(std::uint16_t x) { return Decode<F16Format>(x); }

static inline std::uint16_t F32ToBF16(float x) {
  const std::uint32_t bits = BitsOf(x);
  const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1)) >> 16;
  return static_cast<std::uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? (bits >> 16) | 0x40u : rounded);
}
static inline float BF16ToF32(std::uint16_t x) { return FloatOf(static_cast<std::uint32_t>(x) << 16); }

// f8e8m0fnu: powers of two without sign or zero; 0xff is NaN. Ties round up.
static inline std::uint8_t F32ToE8M0(float x) {
  const std::uint32_t bits = BitsOf(x);
  // The smallest power, 2^-127, is a denormal f32 with half the code of the next power, so the tie is at
  // 1.5 * 2^-127.
  const std::uint32_t rounded = bits < 0x600000u ? 0 : (bits + 0x400000u) >> 23;
  return static_cast<std::uint8_t>(bits == 0 || bits >= 0x7f800000u ? 0xffu : rounded);
}
static inline float E8M0ToF32(std::uint8_t x) {
  return FloatOf(x == 0xff ? 0x7fc00000u : x == 0 ? 0x00400000u : static_cast<std::uint32_t>(x) << 23);
}

// Converts f64 to f32, rounded to odd: a second rounding to a narrower format is then exact.
static inline float F64ToF32Odd(double x) {
  const float nearest = static_cast<float>(x);
  const std::uint32_t bits = BitsOf(nearest);
  const double back = static_cast<double>(nearest);
  const bool inexact = back != x && x == x && (bits & 0x7fffffffu) != 0;
  const bool above = (x < 0 ? -back : back) > (x < 0 ? -x : x);
  return FloatOf(inexact ? ((bits - (above ? 1u : 0u)) | 1u) : bits);
}

// Calls visit(Format{}) for a narrow float type, except bf16 and f8e8m0fnu. Returns false for all other
// types.
template <typename Visitor>
static inline bool VisitFormat(DType type, Visitor&& visit) {
  switch (type) {
    case DType::kF16:
      visit(F16Format{});
      return true;
    case DType::kF4E2M1FN:
      visit(F4E2M1FNFormat{});
      return true;
    case DType::kF8E3M4:
      visit(F8E3M4Format{});
      return true;
    case DType::kF8E4M3:
      visit(F8E4M3Format{});
      return true;
    case DType::kF8E4M3FN:
      visit(F8E4M3FNFormat{});
      return true;
    case DType::kF8E4M3FNUZ:
      visit(F8E4M3FNUZFormat{});
      return true;
    case DType::kF8E4M3B11FNUZ:
      visit(F8E4M3B11FNUZFormat{});
      return true;
    case DType::kF8E5M2:
      visit(F8E5M2Format{});
      return true;
    case DType::kF8E5M2FNUZ:
      visit(F8E5M2FNUZFormat{});
      return true;
    default:
      return false;
  }
}

// Returns the width in bits of an integer or sub-byte type; 8 for kPred.
static constexpr int BitWidth(DType type) {
  switch (type) {
    case DType::kS2:
    case DType::kU2:
      return 2;
    case DType::kS4:
    case DType::kU4:
    case DType::kF4E2M1FN:
      return 4;
    default:
      return static_cast<int>(SizeOf(type) * 8);
  }
}
// Sign- or zero-extends the low bits. A sub-byte integer occupies one byte.
static inline std::int8_t SignExtend(std::int8_t x, int bits) {
  return static_cast<std::int8_t>(static_cast<std::int8_t>(static_cast<std::uint8_t>(x) << (8 - bits)) >>
                                  (8 - bits));
}

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_VECTOR_CONVERT_H_
