// Complex arithmetic for the inner loops of factorisations.
#ifndef IPU_MODEL_KERNELS_VECTOR_PLAIN_COMPLEX_ISA_H_
#define IPU_MODEL_KERNELS_VECTOR_PLAIN_COMPLEX_ISA_H_

#include <cmath>

#include "ipu_model/Types.hpp"

// The namespace keeps the linker from merging code of different instruction sets.
namespace ipu_model::ISA_NAMESPACE {

// Products without NaN checks, as XLA computes them (std::complex would test for NaN).
template <typename R>
struct Complex {
  R re, im;
};
template <typename R>
inline Complex<R> operator*(Complex<R> a, Complex<R> b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
template <typename R>
inline Complex<R> operator-(Complex<R> a, Complex<R> b) {
  return {a.re - b.re, a.im - b.im};
}
template <typename R>
inline Complex<R> operator+(Complex<R> a, Complex<R> b) {
  return {a.re + b.re, a.im + b.im};
}
template <typename R>
inline Complex<R> operator/(Complex<R> a, Complex<R> b) {
  // Smith's division avoids the overflow of the squares.
  if (std::abs(b.re) >= std::abs(b.im)) {
    const R ratio = b.im / b.re, scale = 1 / (b.re + b.im * ratio);
    return {(a.re + a.im * ratio) * scale, (a.im - a.re * ratio) * scale};
  }
  const R ratio = b.re / b.im, scale = 1 / (b.im + b.re * ratio);
  return {(a.re * ratio + a.im) * scale, (a.im * ratio - a.re) * scale};
}

inline float Real(float x) { return x; }
inline double Real(double x) { return x; }
template <typename R>
R Real(Complex<R> x) {
  return x.re;
}
// Calls f with a zero of the type that holds the elements.
template <typename F>
void VisitNumber(DType type, F&& f) {
  switch (type) {
    case DType::kF32:
      return f(float{});
    case DType::kF64:
      return f(double{});
    case DType::kC64:
      return f(Complex<float>{});
    default:
      return f(Complex<double>{});
  }
}

}  // namespace ipu_model::ISA_NAMESPACE

#endif  // IPU_MODEL_KERNELS_VECTOR_PLAIN_COMPLEX_ISA_H_
