#include <cmath>
#include <cstring>
#include <limits>

#include "core/graph/compute_set.h"
#include "poplar/TypeConversion.hpp"

namespace ipu_model {
namespace {

using poplar::QuarterMetadata;

double QuarterValue(std::uint8_t byte, QuarterMetadata::Format format) {
  if (byte == 0x80) return std::numeric_limits<double>::quiet_NaN();
  const int mantissa_bits = format == QuarterMetadata::Format::F143 ? 3 : 2;
  const int bias = format == QuarterMetadata::Format::F143 ? 8 : 16;
  const int exponent = (byte & 0x7f) >> mantissa_bits, mantissa = byte & ((1 << mantissa_bits) - 1);
  const double value = exponent == 0
                           ? std::ldexp(mantissa, 1 - bias - mantissa_bits)
                           : std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
  return (byte & 0x80) != 0 ? -value : value;
}

std::uint8_t QuarterBits(double value, QuarterMetadata::Format format, bool nanoo) {
  if (!std::isfinite(value)) return 0x80;
  const double magnitude = std::fabs(value);
  // The values of 0 to 0x7f ascend.
  unsigned low = 0, high = 0x7f;
  while (low < high) {
    const unsigned middle = (low + high + 1) / 2;
    if (QuarterValue(static_cast<std::uint8_t>(middle), format) <= magnitude) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  if (low < 0x7f) {
    const double below = magnitude - QuarterValue(static_cast<std::uint8_t>(low), format);
    const double above = QuarterValue(static_cast<std::uint8_t>(low + 1), format) - magnitude;
    if (above < below || (above == below && low % 2 == 1)) ++low;
  } else if (nanoo) {
    // The largest significand is odd: the number in the middle rounds up.
    const double largest = QuarterValue(0x7f, format), step = largest - QuarterValue(0x7e, format);
    if (magnitude - largest >= step / 2) return 0x80;
  }
  return static_cast<std::uint8_t>(low == 0 ? 0 : low | (std::signbit(value) ? 0x80u : 0u));
}

void CheckSingle(const poplar::Type& type) {
  if (SizeOf(type.id()) > 8 || IsComplex(type.id()))
    throw poplar::type_error("conversion of " + type.toString() + " to and from one number");
}

}  // namespace

void NumbersToDevice(const poplar::Type& type, const QuarterMetadata* metadata, const double* from,
                     std::size_t n, void* to, bool nanoo) {
  CheckSingle(type);
  auto* out = static_cast<char*>(to);
  for (std::size_t i = 0; i < n; ++i) {
    if (metadata != nullptr) {
      const std::uint8_t bits =
          QuarterBits(std::ldexp(from[i], -metadata->getScale()), metadata->getFormat(), nanoo);
      std::memcpy(out, &bits, 1);
    } else if (IsInteger(type.id())) {
      const auto integer = static_cast<std::int64_t>(from[i]);
      std::memcpy(out, &integer, SizeOf(type.id()));
    } else {
      const std::string bytes = BytesOfNumber(NumberOf(from[i]), type.id(), "convertToDeviceType");
      std::memcpy(out, bytes.data(), bytes.size());
    }
    out += SizeOf(type.id());
  }
}

void NumbersFromDevice(const poplar::Type& type, const QuarterMetadata* metadata, const void* from,
                       std::size_t n, double* to) {
  CheckSingle(type);
  const auto* in = static_cast<const char*>(from);
  for (std::size_t i = 0; i < n; ++i, in += SizeOf(type.id())) {
    to[i] = metadata != nullptr
                ? std::ldexp(QuarterValue(static_cast<std::uint8_t>(*in), metadata->getFormat()),
                             metadata->getScale())
                : NumberOfBytes(in, type.id()).real;
  }
}

void IntegersToDevice(const poplar::Type& type, const std::uint64_t* from, bool /*is_signed*/, std::size_t n,
                      void* to) {
  auto* out = static_cast<char*>(to);
  for (std::size_t i = 0; i < n; ++i, out += SizeOf(type.id())) std::memcpy(out, &from[i], SizeOf(type.id()));
}

void IntegersFromDevice(const poplar::Type& type, const void* from, std::size_t n, std::uint64_t* to) {
  const auto* in = static_cast<const char*>(from);
  for (std::size_t i = 0; i < n; ++i, in += SizeOf(type.id()))
    to[i] = static_cast<std::uint64_t>(NumberOfBytes(in, type.id()).integer);
}

}  // namespace ipu_model
