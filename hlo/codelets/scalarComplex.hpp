// The scalar operations of StableHLO on complex numbers, for generated codelets. The device has no f64, so
// that the functions are computed in f32.
#include "complex.hpp"
#include "scalar.hpp"

namespace hlo {
namespace scalar {

inline Complex add(Complex a, Complex b) { return a + b; }
inline Complex subtract(Complex a, Complex b) { return a - b; }
inline Complex multiply(Complex a, Complex b) { return a * b; }
inline Complex square(Complex a) { return a * a; }
inline Complex negate(Complex a) { return {-a.re, -a.im}; }
inline unsigned char eq(Complex a, Complex b) { return a.re == b.re && a.im == b.im; }
inline unsigned char ne(Complex a, Complex b) { return !eq(a, b); }
inline unsigned char isFinite(Complex a) { return std::isfinite(a.re) && std::isfinite(a.im); }
inline float abs(Complex a) { return std::hypot(a.re, a.im); }
inline Complex sign(Complex a) {
  const float size = abs(a);
  return size == 0 ? a : Complex{a.re / size, a.im / size};
}

// A quotient whose parts are both NaN is found again as in Annex G of C99.
inline Complex divide(Complex a, Complex b) {
  const Complex plain = quotient(a, b);
  if (!std::isnan(plain.re) || !std::isnan(plain.im)) return plain;
  const auto sizeOf = [](float x) { return std::copysign(std::isinf(x) ? 1.0f : 0.0f, x); };
  const float infinity = std::numeric_limits<float>::infinity();
  if (b.re == 0 && b.im == 0) {
    const float factor = std::copysign(infinity, b.re);
    return {factor * a.re, factor * a.im};
  }
  if ((std::isinf(a.re) || std::isinf(a.im)) && isFinite(b)) {
    const float re = sizeOf(a.re), im = sizeOf(a.im);
    return {infinity * (re * b.re + im * b.im), infinity * (im * b.re - re * b.im)};
  }
  if ((std::isinf(b.re) || std::isinf(b.im)) && isFinite(a)) {
    const float re = sizeOf(b.re), im = sizeOf(b.im);
    return {0 * (a.re * re + a.im * im), 0 * (a.im * re - a.re * im)};
  }
  return plain;
}
inline Complex inverse(Complex a) { return divide({1, 0}, a); }

// On the real axis an overflowing e^x times sin(0) would be NaN.
inline Complex exp(Complex a) {
  const float size = std::exp(a.re);
  return {size * cos(a.im), a.im == 0 ? a.im : size * sin(a.im)};
}
inline Complex expm1(Complex a) {
  const float half = sin(a.im / 2);
  return {std::expm1(a.re) * cos(a.im) - 2 * half * half, a.im == 0 ? a.im : std::exp(a.re) * sin(a.im)};
}
inline Complex log(Complex a) { return {std::log(abs(a)), std::atan2(a.im, a.re)}; }
// |1 + a|^2 - 1 without cancellation near 0; the plain formula for large values.
inline Complex log1p(Complex a) {
  const bool isSmall = std::fabs(a.re) < 0.5f && std::fabs(a.im) < 0.5f;
  return {isSmall ? 0.5f * std::log1p(a.re * (2 + a.re) + a.im * a.im) : std::log(std::hypot(1 + a.re, a.im)),
          std::atan2(a.im, 1 + a.re)};
}
inline Complex logistic(Complex a) { return inverse(Complex{1, 0} + exp(negate(a))); }
// Halves come before the sum, so that it does not overflow.
inline Complex sqrt(Complex a) {
  if (std::isinf(a.im)) return {std::fabs(a.im), a.im};
  if (a.re == 0 && a.im == 0) return {0, a.im};
  if (std::isinf(a.re)) {
    if (a.re > 0) return {a.re, std::isnan(a.im) ? a.im : std::copysign(0.0f, a.im)};
    return {std::isnan(a.im) ? a.im : 0, std::copysign(-a.re, a.im)};
  }
  const float size = std::sqrt(std::fabs(a.re) / 2 + abs(a) / 2), other = a.im / (2 * size);
  return a.re >= 0 ? Complex{size, other} : Complex{std::fabs(other), std::copysign(size, a.im)};
}
inline Complex rsqrt(Complex a) { return inverse(sqrt(a)); }
inline Complex sin(Complex a) {
  return {sin(a.re) * std::cosh(a.im), a.im == 0 ? cos(a.re) * a.im : cos(a.re) * std::sinh(a.im)};
}
inline Complex cos(Complex a) {
  return {cos(a.re) * std::cosh(a.im),
          a.im == 0 || a.re == 0 ? -(sin(a.re) * a.im) : -(sin(a.re) * std::sinh(a.im))};
}
// sinh and cosh overflow long after the result is +-1.
inline Complex tanh(Complex a) {
  if (std::isinf(a.re) && !std::isfinite(a.im)) return {std::copysign(1.0f, a.re), 0};
  const float across = sin(a.im) * cos(a.im);
  if (std::fabs(a.re) > 10) return {std::copysign(1.0f, a.re), 4 * std::exp(-2 * std::fabs(a.re)) * across};
  const float along = std::sinh(a.re), cosine = cos(a.im), below = along * along + cosine * cosine;
  return {along * std::cosh(a.re) / below, across / below};
}
// At both ends of the real axis the tangent has no limit.
inline Complex tan(Complex a) {
  const float none = std::numeric_limits<float>::quiet_NaN();
  if (std::isinf(a.re) && a.im == 0) return {none, none};
  const Complex turned = tanh({-a.im, a.re});
  return {turned.im, -turned.re};
}

}  // namespace scalar
}  // namespace hlo
