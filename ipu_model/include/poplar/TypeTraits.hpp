// Properties of C++'s arithmetic types as data. Source: Graphcore's Poplar and PopLibs API reference, class
// poplar::TypeTraits.
#ifndef POPLAR_TYPETRAITS_HPP
#define POPLAR_TYPETRAITS_HPP

#include <cstddef>
#include <limits>
#include <type_traits>

struct quarter;  // poplar/QuarterFloat.hpp

namespace poplar {

struct TypeTraits {
  std::size_t size = 0, align = 0;
  bool isFloat = false, isSigned = false, isIntegral = false;

  template <typename T>
  static constexpr bool isSimpleType() {
    return std::is_arithmetic<T>::value;
  }
  // Whether tensors of the type have a tensor of QUARTER_METADATA beside them.
  template <typename T>
  static constexpr bool requiresMetadata() {
    return std::is_same<T, quarter>::value;
  }
  template <typename T>
  static TypeTraits make() {
    static_assert(isSimpleType<T>(), "TypeTraits::make takes arithmetic types");
    TypeTraits traits;
    traits.size = sizeof(T);
    traits.align = alignof(T);
    traits.isFloat = std::is_floating_point<T>::value;
    traits.isSigned = std::numeric_limits<T>::is_signed;
    traits.isIntegral = std::is_integral<T>::value;
    return traits;
  }
  friend bool operator==(const TypeTraits& a, const TypeTraits& b) {
    return a.size == b.size && a.align == b.align && a.isFloat == b.isFloat && a.isSigned == b.isSigned &&
           a.isIntegral == b.isIntegral;
  }
  friend bool operator!=(const TypeTraits& a, const TypeTraits& b) { return !(a == b); }
};

}  // namespace poplar

#endif  // POPLAR_TYPETRAITS_HPP
