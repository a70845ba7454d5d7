// Conversion between values of the host and the bytes that elements have on the device. Rounds to nearest,
// ties to even. Source: Graphcore's Poplar and PopLibs API reference, poplar/TypeConversion.hpp.
#ifndef POPLAR_TYPECONVERSION_HPP
#define POPLAR_TYPECONVERSION_HPP

#include <cstddef>
#include <type_traits>
#include <utility>

#include "poplar/Quarter.hpp"
#include "poplar/Target.hpp"
#include "poplar/Type.hpp"

namespace ipu_model {
// `type` is the representation of QUARTER if `metadata` is not null; with `nanoo` what is too large for it is
// NaN. Throws poplar::type_error for complex types and those of less than a byte.
void NumbersToDevice(const poplar::Type& type, const poplar::QuarterMetadata* metadata, const double* from,
                     std::size_t n, void* to, bool nanoo = false);
void NumbersFromDevice(const poplar::Type& type, const poplar::QuarterMetadata* metadata, const void* from,
                       std::size_t n, double* to);
// The same for integers, all of whose 64 bits count. `is_signed`: whether `from` or `to` are std::int64_t.
void IntegersToDevice(const poplar::Type& type, const std::uint64_t* from, bool is_signed, std::size_t n,
                      void* to);
void IntegersFromDevice(const poplar::Type& type, const void* from, std::size_t n, std::uint64_t* to);

template <typename T>
void ToDevice(const poplar::Type& type, const poplar::QuarterMetadata* metadata, const T* from, std::size_t n,
              void* to, bool nanoo = false) {
  char* out = static_cast<char*>(to);
  for (std::size_t i = 0; i < n; ++i, out += SizeOf(type.id())) {
    if (std::is_integral_v<T> && metadata == nullptr && IsInteger(type.id())) {
      const std::uint64_t bits = static_cast<std::uint64_t>(from[i]);
      IntegersToDevice(type, &bits, std::is_signed_v<T>, 1, out);
    } else {
      const double value = static_cast<double>(from[i]);
      NumbersToDevice(type, metadata, &value, 1, out, nanoo);
    }
  }
}
template <typename T>
void FromDevice(const poplar::Type& type, const poplar::QuarterMetadata* metadata, const void* from,
                std::size_t n, T* to) {
  const char* in = static_cast<const char*>(from);
  for (std::size_t i = 0; i < n; ++i, in += SizeOf(type.id())) {
    if (std::is_integral_v<T> && metadata == nullptr && IsInteger(type.id())) {
      std::uint64_t bits = 0;
      IntegersFromDevice(type, in, 1, &bits);
      to[i] = static_cast<T>(bits);
    } else {
      double value = 0;
      NumbersFromDevice(type, metadata, in, 1, &value);
      to[i] = static_cast<T>(value);
    }
  }
}
}  // namespace ipu_model

namespace poplar {

// Converts one value, or all of a range with data() and size(), to elements of `type` at `dst`.
template <typename Range>
auto convertToDeviceType(const Type& type, const Range& src, void* dst)
    -> decltype(static_cast<void>(src.data()), static_cast<void>(src.size())) {
  ipu_model::ToDevice(type, nullptr, src.data(), src.size(), dst);
}
template <typename T>
std::enable_if_t<std::is_arithmetic_v<T>> convertToDeviceType(const Type& type, T src, void* dst) {
  ipu_model::ToDevice(type, nullptr, &src, 1, dst);
}
// To elements of QUARTER with this metadata. A number that is too large becomes the largest one, or NaN with
// `nanoo`; infinity is always NaN.
template <typename Range>
auto convertToDeviceType(const Type& type, const QuarterMetadata& metadata, const Range& src, void* dst,
                         bool nanoo = false)
    -> decltype(static_cast<void>(src.data()), static_cast<void>(src.size())) {
  ipu_model::ToDevice(type, &metadata, src.data(), src.size(), dst, nanoo);
}
template <typename T>
std::enable_if_t<std::is_arithmetic_v<T>> convertToDeviceType(const Type& type,
                                                              const QuarterMetadata& metadata, T src,
                                                              void* dst, bool nanoo = false) {
  ipu_model::ToDevice(type, &metadata, &src, 1, dst, nanoo);
}

// Converts elements of `type` at `src` to one value, or to all values of a range.
template <typename Range>
auto convertFromDeviceType(const Type& type, const void* src, Range&& dst)
    -> decltype(static_cast<void>(*dst.data()), static_cast<void>(dst.size())) {
  using T = std::remove_cv_t<std::remove_reference_t<decltype(*dst.data())>>;
  ipu_model::FromDevice(type, nullptr, src, dst.size(), const_cast<T*>(dst.data()));
}
template <typename T>
std::enable_if_t<std::is_arithmetic_v<T>> convertFromDeviceType(const Type& type, const void* src, T& dst) {
  ipu_model::FromDevice(type, nullptr, src, 1, &dst);
}
template <typename Range>
auto convertFromDeviceType(const Type& type, const QuarterMetadata& metadata, const void* src, Range&& dst)
    -> decltype(static_cast<void>(*dst.data()), static_cast<void>(dst.size())) {
  using T = std::remove_cv_t<std::remove_reference_t<decltype(*dst.data())>>;
  ipu_model::FromDevice(type, &metadata, src, dst.size(), const_cast<T*>(dst.data()));
}
template <typename T>
std::enable_if_t<std::is_arithmetic_v<T>> convertFromDeviceType(const Type& type,
                                                                const QuarterMetadata& metadata,
                                                                const void* src, T& dst) {
  ipu_model::FromDevice(type, &metadata, src, 1, &dst);
}

inline void copyFloatToDeviceHalf(const Target&, const float* src, void* dst, std::size_t numElements) {
  ipu_model::ToDevice(HALF, nullptr, src, numElements, dst);
}
inline void copyDoubleToDeviceHalf(const Target&, const double* src, void* dst, std::size_t numElements) {
  ipu_model::ToDevice(HALF, nullptr, src, numElements, dst);
}
inline void copyDeviceHalfToFloat(const Target&, const void* src, float* dst, std::size_t numElements) {
  ipu_model::FromDevice(HALF, nullptr, src, numElements, dst);
}
inline void copyDeviceHalfToDouble(const Target&, const void* src, double* dst, std::size_t numElements) {
  ipu_model::FromDevice(HALF, nullptr, src, numElements, dst);
}

}  // namespace poplar

#endif  // POPLAR_TYPECONVERSION_HPP
