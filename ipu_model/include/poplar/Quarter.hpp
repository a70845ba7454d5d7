// The metadata of 8-bit floats: their format, and a scale. Source: Graphcore's Poplar and PopLibs API
// reference, class poplar::QuarterMetadata; Noune et al. 2022, "8-bit numerical formats for deep neural
// networks", for the formats.
#ifndef POPLAR_QUARTER_HPP
#define POPLAR_QUARTER_HPP

#include <cstdint>
#include <ostream>
#include <string>

#include "poplar/exceptions.hpp"

namespace poplar {

// An element is q * 2^scale, where q has a sign bit, 4 or 5 bits of exponent with bias 8 or 16, and the rest
// of mantissa. There is no infinity and no -0: the byte 0x80 is NaN.
class QuarterMetadata {
 public:
  enum class Format : std::uint8_t { F143 = 0, F152 = 1 };

  QuarterMetadata() = default;
  // Throws poplar_error for a scale outside of [-32, 31].
  QuarterMetadata(Format format, int scale) : format_(format), scale_(static_cast<std::int8_t>(scale)) {
    if (scale < -32 || scale > 31)
      throw poplar_error("QuarterMetadata: the scale " + std::to_string(scale) + " is not in [-32, 31]");
  }
  Format getFormat() const { return format_; }
  int getScale() const { return scale_; }
  // The byte that elements of QUARTER_METADATA hold: the scale in the low 6 bits, the format in the highest.
  std::uint8_t getBinary() const {
    return static_cast<std::uint8_t>((static_cast<unsigned>(format_) << 7) |
                                     (static_cast<unsigned>(scale_) & 0x3f));
  }
  static QuarterMetadata fromBinary(std::uint8_t binary) {
    const int scale = static_cast<int>(binary & 0x3f);
    return QuarterMetadata((binary & 0x80) != 0 ? Format::F152 : Format::F143,
                           scale >= 32 ? scale - 64 : scale);
  }
  std::string toString() const;
  friend bool operator==(const QuarterMetadata& a, const QuarterMetadata& b) {
    return a.format_ == b.format_ && a.scale_ == b.scale_;
  }
  friend bool operator!=(const QuarterMetadata& a, const QuarterMetadata& b) { return !(a == b); }

 private:
  Format format_ = Format::F143;
  std::int8_t scale_ = 0;
};

inline std::string toString(QuarterMetadata::Format format) {
  return format == QuarterMetadata::Format::F143 ? "F143" : "F152";
}
inline std::string QuarterMetadata::toString() const {
  return "{" + poplar::toString(format_) + ", " + std::to_string(scale_) + "}";
}
inline std::ostream& operator<<(std::ostream& out, const QuarterMetadata& metadata) {
  return out << metadata.toString();
}

}  // namespace poplar

#endif  // POPLAR_QUARTER_HPP
