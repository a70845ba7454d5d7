// Floats of 8 and fewer bits as their bits: a sign, then exponent and mantissa. Arithmetic is that of float,
// rounded. Text after scalar.hpp.

namespace hlo {
namespace scalar {

// kIeee: infinities and NaN; kNanOnly ("fn"): all ones is NaN; kUnsignedZero ("fnuz"): the bits of -0 are
// NaN; kFinite: neither, numbers saturate.
enum class Special { kIeee, kNanOnly, kUnsignedZero, kFinite };

template <unsigned exponent, unsigned mantissa, unsigned bias, Special special>
struct Small {
  static constexpr unsigned kSign = 1u << (exponent + mantissa), kInfinity = ((1u << exponent) - 1)
                                                                             << mantissa;
  static constexpr unsigned kNan = special == Special::kIeee      ? kInfinity | 1u << (mantissa - 1)
                                   : special == Special::kNanOnly ? kSign - 1
                                                                  : kSign;
  static constexpr unsigned kLargest = special == Special::kIeee      ? kInfinity - 1
                                       : special == Special::kNanOnly ? kNan - 1
                                                                      : kSign - 1;
  static constexpr unsigned kOverflow = special == Special::kIeee     ? kInfinity
                                        : special == Special::kFinite ? kLargest
                                                                      : kNan;
  static float decode(unsigned char bits) {
    const unsigned code = bits & (2 * kSign - 1), number = code & (kSign - 1);
    const unsigned sign = (code & kSign) != 0 ? 0x80000000u : 0;
    if (special == Special::kUnsignedZero && code == kNan) return bitsAs<float>(0x7fc00000u);
    if (special == Special::kNanOnly && number == kNan) return bitsAs<float>(sign | 0x7fc00000u);
    if (special == Special::kIeee && number >= kInfinity)
      return bitsAs<float>(sign | 0x7f800000u | (number << (23 - mantissa) & 0x7fffffu));
    if (number >= (1u << mantissa))
      return bitsAs<float>(sign | ((number << (23 - mantissa)) + ((127 - bias) << 23)));
    const float denormal = static_cast<float>(number) * bitsAs<float>((128 - bias - mantissa) << 23);
    return bitsAs<float>(sign | bitsAs<unsigned>(denormal));
  }
  static unsigned char encode(float x) {
    const auto bits = bitsAs<unsigned>(x);
    const unsigned number = bits & 0x7fffffffu, sign = (bits >> 31) * kSign;
    constexpr unsigned shift = 23 - mantissa, rebias = 127 - bias;
    if (number > 0x7f800000u)
      return static_cast<unsigned char>(
          special == Special::kUnsignedZero || special == Special::kFinite ? kNan : kNan | sign);
    unsigned code;
    if (number < ((rebias + 1) << 23)) {
      // A denormal number: whole multiples of the smallest one.
      constexpr unsigned unit = 128 - bias - mantissa;
      const float scaled = bitsAs<float>(number) * bitsAs<float>((254 - unit) << 23);
      code = static_cast<unsigned>(std::rint(scaled));
    } else {
      code = ((number + ((1u << (shift - 1)) - 1) + (number >> shift & 1)) >> shift) - (rebias << mantissa);
      if (number == 0x7f800000u || code > kLargest) code = kOverflow;
    }
    if (special == Special::kUnsignedZero)
      return static_cast<unsigned char>(code == 0 || code == kNan ? code : code | sign);
    return static_cast<unsigned char>(code | sign);
  }
};

// Powers of two without a sign; no zero.
struct SmallScale {
  static float decode(unsigned char bits) {
    return bitsAs<float>(bits == 0xff ? 0x7fc00000u
                         : bits == 0  ? 0x00400000u
                                      : static_cast<unsigned>(bits) << 23);
  }
  static unsigned char encode(float x) {
    const auto bits = bitsAs<unsigned>(x);
    return static_cast<unsigned char>(bits == 0 || bits >= 0x7f800000u ? 0xffu
                                      : bits < 0x600000u               ? 0u
                                                                       : (bits + 0x400000u) >> 23);
  }
};

template <typename Format>
float roundSmall(float x) {
  return Format::decode(Format::encode(x));
}

}  // namespace scalar
}  // namespace hlo
