// popfloat's casts between half and single precision on the host.
#include <cmath>

#include "kernels/vector/convert.h"
#include "popfloat/experimental/CastToHalf.hpp"

namespace popfloat::experimental {

std::uint16_t singleToHalf(float value, bool enNanoo) {
  constexpr std::uint16_t kInfinity = 0x7c00, kLargest = 0x7bff, kNaN = 0x7e00, kSign = 0x8000;
  const std::uint16_t bits = ipu_model::F32ToF16(value);
  const bool overflows = std::isfinite(value) && (bits & kInfinity) == kInfinity;
  if (!overflows) return bits;
  return static_cast<std::uint16_t>((bits & kSign) | (enNanoo ? kNaN : kLargest));
}

float halfToSingle(std::uint16_t ihalf) { return ipu_model::F16ToF32(ihalf); }

}  // namespace popfloat::experimental
