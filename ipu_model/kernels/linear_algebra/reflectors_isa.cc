#include <algorithm>
#include <cmath>
#include <type_traits>

#include "kernels/linear_algebra/reflectors.h"
#include "kernels/vector/plain_complex_isa.h"

namespace ipu_model {
namespace ISA_NAMESPACE {
namespace {

inline float Conjugate(float x) { return x; }
inline double Conjugate(double x) { return x; }
template <typename R>
Complex<R> Conjugate(Complex<R> x) {
  return {x.re, -x.im};
}
inline float Imaginary(float) { return 0; }
inline double Imaginary(double) { return 0; }
template <typename R>
R Imaginary(Complex<R> x) {
  return x.im;
}
template <typename T>
using RealOf = decltype(Real(T{}));
template <typename T>
T FromReal(RealOf<T> x) {
  if constexpr (std::is_floating_point_v<T>) {
    return x;
  } else {
    return {x, 0};
  }
}
// The absolute value without overflow; NaN stays.
template <typename T>
RealOf<T> Absolute(T x) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::abs(x);
  } else {
    return std::hypot(x.re, x.im);
  }
}
template <typename T>
RealOf<T> SquareOf(T x, RealOf<T> scale) {
  const RealOf<T> re = Real(x) / scale, im = Imaginary(x) / scale;
  return re * re + im * im;
}

template <typename T>
void Find(std::int64_t m, std::int64_t pivot, std::int64_t stride, T* column, T* tau) {
  using R = RealOf<T>;
  const T alpha = column[pivot * stride];
  R largest = 0;
  for (std::int64_t i = pivot + 1; i < m; ++i) {
    const R size = Absolute(column[i * stride]);
    largest = size > largest || std::isnan(size) ? size : largest;
  }
  if (largest == 0 && Imaginary(alpha) == 0) {
    *tau = T{};
    column[pivot * stride] = FromReal<T>(Real(alpha));
    return;
  }
  const R at_pivot = Absolute(alpha), scale = largest > at_pivot || std::isnan(largest) ? largest : at_pivot;
  R sum = SquareOf(alpha, scale);
  for (std::int64_t i = pivot + 1; i < m; ++i) sum += SquareOf(column[i * stride], scale);
  const R beta = -std::copysign(scale * std::sqrt(sum), Real(alpha));
  *tau = (FromReal<T>(beta) - alpha) / FromReal<T>(beta);
  const T divisor = alpha - FromReal<T>(beta);
  for (std::int64_t i = pivot + 1; i < m; ++i) column[i * stride] = column[i * stride] / divisor;
  column[pivot * stride] = FromReal<T>(beta);
}

template <typename T>
void Apply(std::int64_t m, std::int64_t pivot, bool adjoint, std::int64_t v_stride, const T* v, T tau,
           std::int64_t stride, T* column) {
  // Several sums, so that the loop vectorises where elements are contiguous.
  constexpr std::int64_t kLanes = 16;
  T sums[kLanes] = {};
  sums[0] = column[pivot * stride];
  const T* from = v + (pivot + 1) * v_stride;
  T* to = column + (pivot + 1) * stride;
  const std::int64_t n = m - pivot - 1;
  std::int64_t i = 0;
  if (stride == 1 && v_stride == 1) {
    for (; i + kLanes <= n; i += kLanes)
      for (std::int64_t lane = 0; lane < kLanes; ++lane)
        sums[lane] = sums[lane] + Conjugate(from[i + lane]) * to[i + lane];
  }
  for (; i < n; ++i) sums[i % kLanes] = sums[i % kLanes] + Conjugate(from[i * v_stride]) * to[i * stride];
  T sum{};
  for (const T& part : sums) sum = sum + part;
  sum = sum * (adjoint ? Conjugate(tau) : tau);
  column[pivot * stride] = column[pivot * stride] - sum;
  if (stride == 1 && v_stride == 1) {
#pragma GCC ivdep
    for (i = 0; i < n; ++i) to[i] = to[i] - sum * from[i];
  } else {
    for (i = 0; i < n; ++i) to[i * stride] = to[i * stride] - sum * from[i * v_stride];
  }
}

}  // namespace

void FindReflector(DType type, std::int64_t m, std::int64_t pivot, std::int64_t stride, void* column,
                   void* tau) {
  VisitNumber(type, [&](auto zero) {
    using T = decltype(zero);
    Find(m, pivot, stride, static_cast<T*>(column), static_cast<T*>(tau));
  });
}

void Reflect(DType type, std::int64_t m, std::int64_t pivot, bool adjoint, std::int64_t v_stride,
             const void* v, const void* tau, std::int64_t stride, void* column) {
  VisitNumber(type, [&](auto zero) {
    using T = decltype(zero);
    Apply(m, pivot, adjoint, v_stride, static_cast<const T*>(v), *static_cast<const T*>(tau), stride,
          static_cast<T*>(column));
  });
}

}  // namespace ISA_NAMESPACE
}  // namespace ipu_model
