// Stand-in for Graphcore's unpublished helper library: the functions that PopLibs uses.
#pragma once

#include <cstddef>
#include <poplar/ArrayRef.hpp>
#include <type_traits>
#include <utility>

namespace gccs {

using poplar::ArrayRef;

template <typename A, typename B>
constexpr auto ceildiv(A a, B b) {
  using T = std::common_type_t<A, B>;
  return static_cast<T>((static_cast<T>(a) + static_cast<T>(b) - 1) / static_cast<T>(b));
}
// The same; 0 if b is 0.
template <typename A, typename B>
constexpr auto ceildiv0(A a, B b) {
  return b == 0 ? decltype(ceildiv(a, b)){0} : ceildiv(a, b);
}
template <typename A, typename B>
constexpr auto floordiv(A a, B b) {
  return a / b;
}
template <typename A, typename B>
constexpr auto alignNext(A a, B b) {
  return ceildiv(a, b) * b;
}
template <typename A, typename B>
constexpr auto alignPrev(A a, B b) {
  return a / b * b;
}
// The smallest n with 2^n >= a.
template <typename A>
constexpr unsigned ceilLog2(A a) {
  unsigned n = 0;
  while ((std::size_t{1} << n) < static_cast<std::size_t>(a)) ++n;
  return n;
}
// How many of `parts` parts of `total`, which differ by at most 1, are the larger ones, and how many the
// others.
template <typename A, typename B>
constexpr auto balancedPartition(A total, B parts) {
  using T = std::common_type_t<A, B>;
  const T larger = static_cast<T>(total) % static_cast<T>(parts);
  return std::pair<T, T>(larger, static_cast<T>(parts) - larger);
}
template <typename A>
constexpr A nthTriangular(A n) {
  return n * (n + 1) / 2;
}

}  // namespace gccs
