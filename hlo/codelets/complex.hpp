// Numbers that are real or complex.
#include <cmath>

#include "common.hpp"

namespace hlo {

// complex64 as it lies in memory.
struct Complex {
  float re, im;
};
inline Complex conjugate(Complex x) { return {x.re, -x.im}; }

inline Complex operator+(Complex a, Complex b) { return {a.re + b.re, a.im + b.im}; }
inline Complex operator-(Complex a, Complex b) { return {a.re - b.re, a.im - b.im}; }
inline Complex operator*(Complex a, Complex b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

inline float conjugate(float x) { return x; }
inline float realOf(float x) { return x; }
inline float realOf(Complex x) { return x.re; }
inline void setReal(float* x, float re) { *x = re; }
inline void setReal(Complex* x, float re) { *x = {re, 0}; }
inline void setParts(float* x, float value) { *x = value; }
inline void setParts(Complex* x, float value) { *x = {value, value}; }
// c - a * b, an f32 product rounded with the difference, once.
inline float subtractProduct(float c, float a, float b) { return std::fma(-a, b, c); }
inline Complex subtractProduct(Complex c, Complex a, Complex b) {
  return {c.re - (a.re * b.re - a.im * b.im), c.im - (a.re * b.im + a.im * b.re)};
}
inline float quotient(float a, float b) { return a / b; }
// Divides by the larger part first, so that no square overflows.
inline Complex quotient(Complex a, Complex b) {
  if (std::fabs(b.re) >= std::fabs(b.im)) {
    const float ratio = b.im / b.re, below = b.re + b.im * ratio;
    return {(a.re + a.im * ratio) / below, (a.im - a.re * ratio) / below};
  }
  const float ratio = b.re / b.im, below = b.re * ratio + b.im;
  return {(a.re * ratio + a.im) / below, (a.im * ratio - a.re) / below};
}

// The elements of an edge: E is the type of Poplar with the bytes of a number.
template <typename E>
struct NumberOf {
  using type = E;
};
template <>
struct NumberOf<unsigned long long> {
  using type = Complex;
};
template <typename E>
using Number = typename NumberOf<E>::type;
template <typename E>
const Number<E>* numbers(const E* elements) {
  return reinterpret_cast<const Number<E>*>(elements);
}
template <typename E>
Number<E>* numbers(E* elements) {
  return reinterpret_cast<Number<E>*>(elements);
}

}  // namespace hlo
