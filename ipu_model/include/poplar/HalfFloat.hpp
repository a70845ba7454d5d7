// `half` in codelets on the host: the compiler's own 16-bit float. Compilers without one (g++ before 12,
// clang before 15) have no `half`.
#ifndef POPLAR_HALFFLOAT_HPP
#define POPLAR_HALFFLOAT_HPP

#ifdef __FLT16_MANT_DIG__
__extension__ typedef _Float16 half;
#define IPU_MODEL_HAS_HALF 1

// The C++ library has these from C++23 on.
#if defined(__cplusplus) && !defined(__STDCPP_FLOAT16_T__)
#include <cmath>
#include <limits>
#include <type_traits>
namespace std {
#if defined(__GLIBCXX__)
// The traits is_arithmetic, is_scalar, is_signed and so on rest on this one.
template <>
struct __is_floating_point_helper<half> : public true_type {};
#endif
template <>
class numeric_limits<half> {
 public:
  static constexpr bool is_specialized = true, is_signed = true, is_integer = false, is_exact = false;
  static constexpr bool has_infinity = true, has_quiet_NaN = true, has_signaling_NaN = true;
  static constexpr float_denorm_style has_denorm = denorm_present;
  static constexpr bool has_denorm_loss = false, is_iec559 = true, is_bounded = true, is_modulo = false;
  static constexpr bool traps = false, tinyness_before = false;
  static constexpr float_round_style round_style = round_to_nearest;
  static constexpr int radix = 2, digits = 11, digits10 = 3, max_digits10 = 5;
  static constexpr int min_exponent = -13, min_exponent10 = -4, max_exponent = 16, max_exponent10 = 4;
  static constexpr half min() noexcept { return static_cast<half>(0x1p-14f); }
  static constexpr half max() noexcept { return static_cast<half>(65504.0f); }
  static constexpr half lowest() noexcept { return static_cast<half>(-65504.0f); }
  static constexpr half epsilon() noexcept { return static_cast<half>(0x1p-10f); }
  static constexpr half round_error() noexcept { return static_cast<half>(0.5f); }
  static constexpr half denorm_min() noexcept { return static_cast<half>(0x1p-24f); }
  static constexpr half infinity() noexcept { return static_cast<half>(__builtin_inff()); }
  static constexpr half quiet_NaN() noexcept { return static_cast<half>(__builtin_nanf("")); }
  static constexpr half signaling_NaN() noexcept { return static_cast<half>(__builtin_nansf("")); }
};
#define IPU_MODEL_HALF_FUNCTION(name) \
  inline half name(half x) { return static_cast<half>(name(static_cast<float>(x))); }
IPU_MODEL_HALF_FUNCTION(abs)
IPU_MODEL_HALF_FUNCTION(acos)
IPU_MODEL_HALF_FUNCTION(asin)
IPU_MODEL_HALF_FUNCTION(atan)
IPU_MODEL_HALF_FUNCTION(cbrt)
IPU_MODEL_HALF_FUNCTION(ceil)
IPU_MODEL_HALF_FUNCTION(cos)
IPU_MODEL_HALF_FUNCTION(cosh)
IPU_MODEL_HALF_FUNCTION(erf)
IPU_MODEL_HALF_FUNCTION(exp)
IPU_MODEL_HALF_FUNCTION(exp2)
IPU_MODEL_HALF_FUNCTION(expm1)
IPU_MODEL_HALF_FUNCTION(fabs)
IPU_MODEL_HALF_FUNCTION(floor)
IPU_MODEL_HALF_FUNCTION(log)
IPU_MODEL_HALF_FUNCTION(log10)
IPU_MODEL_HALF_FUNCTION(log1p)
IPU_MODEL_HALF_FUNCTION(log2)
IPU_MODEL_HALF_FUNCTION(nearbyint)
IPU_MODEL_HALF_FUNCTION(rint)
IPU_MODEL_HALF_FUNCTION(round)
IPU_MODEL_HALF_FUNCTION(sin)
IPU_MODEL_HALF_FUNCTION(sinh)
IPU_MODEL_HALF_FUNCTION(sqrt)
IPU_MODEL_HALF_FUNCTION(tan)
IPU_MODEL_HALF_FUNCTION(tanh)
IPU_MODEL_HALF_FUNCTION(trunc)
#undef IPU_MODEL_HALF_FUNCTION
#define IPU_MODEL_HALF_FUNCTION(name)                                             \
  inline half name(half x, half y) {                                              \
    return static_cast<half>(name(static_cast<float>(x), static_cast<float>(y))); \
  }
IPU_MODEL_HALF_FUNCTION(atan2)
IPU_MODEL_HALF_FUNCTION(copysign)
IPU_MODEL_HALF_FUNCTION(fdim)
IPU_MODEL_HALF_FUNCTION(fmax)
IPU_MODEL_HALF_FUNCTION(fmin)
IPU_MODEL_HALF_FUNCTION(fmod)
IPU_MODEL_HALF_FUNCTION(hypot)
IPU_MODEL_HALF_FUNCTION(pow)
IPU_MODEL_HALF_FUNCTION(remainder)
#undef IPU_MODEL_HALF_FUNCTION
#define IPU_MODEL_HALF_FUNCTION(name) \
  inline bool name(half x) { return name(static_cast<float>(x)); }
IPU_MODEL_HALF_FUNCTION(isfinite)
IPU_MODEL_HALF_FUNCTION(isinf)
IPU_MODEL_HALF_FUNCTION(isnan)
IPU_MODEL_HALF_FUNCTION(signbit)
#undef IPU_MODEL_HALF_FUNCTION
}  // namespace std
#endif
#endif

#endif  // POPLAR_HALFFLOAT_HPP
