// Finding a Householder reflection 1 - tau v v^H, where v is 0 above its pivot and 1 there.
#include "complex.hpp"

namespace hlo {

inline float imaginaryOf(float) { return 0; }
inline float imaginaryOf(Complex x) { return x.im; }
inline float absolute(float x) { return std::fabs(x); }
inline float absolute(Complex x) { return std::hypot(x.re, x.im); }

template <typename T>
float scaledSquare(T x, float scale) {
  const float re = realOf(x) / scale, im = imaginaryOf(x) / scale;
  return re * re + im * im;
}

inline float square(float x) { return x * x; }
inline float square(Complex x) { return x.re * x.re + x.im * x.im; }

// As findReflector, where squares overflow or underflow.
template <typename T, typename Column>
T findScaledReflector(const Column& x, unsigned m, unsigned pivot) {
  T alpha = x[pivot], tau, beta;
  float largest = 0;
  for (unsigned i = pivot + 1; i < m; ++i) {
    const float size = absolute(x[i]);
    if (size > largest || size != size) largest = size;
  }
  if (largest == 0 && imaginaryOf(alpha) == 0) {
    setReal(&x[pivot], realOf(alpha));
    setReal(&tau, 0);
    return tau;
  }
  const float atPivot = absolute(alpha), scale = largest > atPivot || largest != largest ? largest : atPivot;
  float sum = scaledSquare(alpha, scale);
  for (unsigned i = pivot + 1; i < m; ++i) sum += scaledSquare(x[i], scale);
  setReal(&beta, -std::copysign(scale * std::sqrt(sum), realOf(alpha)));
  for (unsigned i = pivot + 1; i < m; ++i) x[i] = quotient(x[i], alpha - beta);
  x[pivot] = beta;
  return quotient(beta - alpha, beta);
}

// Finds the reflection whose adjoint makes the column zero below the pivot, by LAPACK's larfg. x[i] is its
// element i.
template <typename T, typename Column>
T findReflector(const Column& x, unsigned m, unsigned pivot) {
  const T alpha = x[pivot];
  float below = 0;
  for (unsigned i = pivot + 1; i < m; ++i) below += square(x[i]);
  const float all = below + square(alpha);
  if (!(below > 1e-30f && all < 1e30f)) return findScaledReflector<T>(x, m, pivot);
  T beta, one;
  setReal(&one, 1);
  setReal(&beta, -std::copysign(std::sqrt(all), realOf(alpha)));
  const T factor = quotient(one, alpha - beta);
  for (unsigned i = pivot + 1; i < m; ++i) x[i] = x[i] * factor;
  x[pivot] = beta;
  return quotient(beta - alpha, beta);
}

}  // namespace hlo
