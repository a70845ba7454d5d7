// `quarter` in codelets on the host: 8-bit floats, converted by functions that take the tensor's metadata.
// poplar/Quarter.hpp describes the formats. Source: Graphcore's Poplar and PopLibs API reference.
#ifndef POPLAR_QUARTERFLOAT_HPP
#define POPLAR_QUARTERFLOAT_HPP

#include <cmath>

#include "poplar/HalfFloat.hpp"

struct quarter {
  unsigned char bits;
};

struct quarter_metadata {
  bool f152 = false;
  int scale = 0;
};

namespace poplar {

using MetadataType = unsigned char;

inline quarter_metadata unpackMetadata(const MetadataType* metadata) {
  const int scale = *metadata & 0x3f;
  return {(*metadata & 0x80) != 0, scale >= 32 ? scale - 64 : scale};
}

inline float toFloat(quarter value, quarter_metadata metadata) {
  if (value.bits == 0x80) return std::nanf("");
  const int mantissa_bits = metadata.f152 ? 2 : 3, bias = metadata.f152 ? 16 : 8;
  const int exponent = (value.bits & 0x7f) >> mantissa_bits,
            mantissa = value.bits & ((1 << mantissa_bits) - 1);
  const int shift = (exponent == 0 ? 1 : exponent) - bias - mantissa_bits + metadata.scale;
  const float magnitude =
      std::ldexp(static_cast<float>(exponent == 0 ? mantissa : mantissa + (1 << mantissa_bits)), shift);
  return (value.bits & 0x80) != 0 ? -magnitude : magnitude;
}

// Rounds to nearest, ties to even. A number that is too large becomes NaN with `nanoo`, otherwise the
// largest; infinity is always NaN.
inline quarter toQuarter(float value, quarter_metadata metadata, bool nanoo = false) {
  if (!std::isfinite(value)) return {0x80};
  const quarter_metadata unscaled = {metadata.f152, 0};
  const float magnitude = std::ldexp(std::fabs(value), -metadata.scale);
  unsigned low = 0, high = 0x7f;
  while (low < high) {
    const unsigned middle = (low + high + 1) / 2;
    if (toFloat({static_cast<unsigned char>(middle)}, unscaled) <= magnitude) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  const float below = magnitude - toFloat({static_cast<unsigned char>(low)}, unscaled);
  if (low < 0x7f) {
    const float above = toFloat({static_cast<unsigned char>(low + 1)}, unscaled) - magnitude;
    if (above < below || (above == below && low % 2 == 1)) ++low;
  } else if (nanoo && below > 0 && 2 * below >= toFloat({0x7f}, unscaled) - toFloat({0x7e}, unscaled)) {
    return {0x80};
  }
  return {static_cast<unsigned char>(low == 0 ? 0 : low | (std::signbit(value) ? 0x80u : 0u))};
}

#ifdef IPU_MODEL_HAS_HALF
inline half toHalf(quarter value, quarter_metadata metadata) {
  return static_cast<half>(toFloat(value, metadata));
}
#endif

}  // namespace poplar

#endif  // POPLAR_QUARTERFLOAT_HPP
