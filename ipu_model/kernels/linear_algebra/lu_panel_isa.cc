// Elimination of a panel, column by column.
#include <algorithm>
#include <cmath>

#include "kernels/linear_algebra/lu_panel.h"
#include "kernels/vector/plain_complex_isa.h"

namespace ipu_model {
namespace ISA_NAMESPACE {
namespace {

inline float Size(float x) { return std::abs(x); }
inline double Size(double x) { return std::abs(x); }
template <typename R>
R Size(Complex<R> x) {
  return std::abs(x.re) + std::abs(x.im);
}
// Returns the first of the largest elements, or -1 if all are NaN.
template <typename T>
std::int64_t FirstLargest(std::int64_t n, const T* x) {
  using R = decltype(Size(T{}));
  constexpr std::int64_t kLanes = 16;
  R best[kLanes];
  std::fill(best, best + kLanes, R{-1});
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      const R size = Size(x[i + lane]);
      best[lane] = size > best[lane] ? size : best[lane];
    }
  }
  R largest = -1;
  for (; i < n; ++i) largest = Size(x[i]) > largest ? Size(x[i]) : largest;
  for (const R size : best) largest = std::max(largest, size);
  if (largest < 0) return -1;
  i = 0;
  while (Size(x[i]) != largest) ++i;
  return i;
}

// Divides x[0:n] by the pivot; leaves it unchanged if the pivot is zero.
template <typename T>
void Divide(std::int64_t n, T pivot, T* x) {
  if (Size(pivot) == 0) return;
  for (std::int64_t i = 0; i < n; ++i) x[i] = x[i] / pivot;
}

template <typename T>
void Factor(std::int64_t m, std::int64_t n, T* a, std::int32_t* pivots) {
  for (std::int64_t j = 0; j < n; ++j) {
    T* column = a + j * m;
    const std::int64_t largest = FirstLargest(m - j, column + j),
                       pivot = j + std::max<std::int64_t>(0, largest);
    pivots[j] = static_cast<std::int32_t>(pivot);
    if (pivot != j) {
      for (std::int64_t c = 0; c < n; ++c) std::swap(a[c * m + j], a[c * m + pivot]);
    }
    const std::int64_t rows = m - j - 1;
    T* __restrict factors = column + j + 1;
    Divide(rows, column[j], factors);
    std::int64_t c = j + 1;
    for (; c + 4 <= n; c += 4) {  // four columns at a time load each factor once
      T* x0 = a + c * m + j;
      T *x1 = x0 + m, *x2 = x1 + m, *x3 = x2 + m;
      const T u0 = *x0++, u1 = *x1++, u2 = *x2++, u3 = *x3++;
      T* __restrict y0 = x0;
      T* __restrict y1 = x1;
      T* __restrict y2 = x2;
      T* __restrict y3 = x3;
      for (std::int64_t i = 0; i < rows; ++i) {
        const T factor = factors[i];
        y0[i] = y0[i] - factor * u0;
        y1[i] = y1[i] - factor * u1;
        y2[i] = y2[i] - factor * u2;
        y3[i] = y3[i] - factor * u3;
      }
    }
    for (; c < n; ++c) {
      T* __restrict y = a + c * m + j + 1;
      const T u = y[-1];
      for (std::int64_t i = 0; i < rows; ++i) y[i] = y[i] - factors[i] * u;
    }
  }
}

template <typename T>
void Eliminate(std::int64_t m, std::int64_t n, std::int64_t begin, std::int64_t j, const T* pivot_row, T* a) {
  for (std::int64_t i = begin; i < m; ++i) {
    T* row = a + i * n;
    Divide(1, pivot_row[j], row + j);
    const T factor = row[j];
    for (std::int64_t c = j + 1; c < n; ++c) row[c] = row[c] - factor * pivot_row[c];
  }
}

template <typename T>
std::int64_t Find(std::int64_t m, std::int64_t n, std::int64_t begin, std::int64_t j, const T* a,
                  double* size) {
  std::int64_t found = begin;
  *size = -1;
  for (std::int64_t i = begin; i < m; ++i) {
    const double mine = static_cast<double>(Size(a[i * n + j]));
    if (!(mine > *size)) continue;
    *size = mine;
    found = i;
  }
  return found;
}

}  // namespace

void FactorPanel(DType type, std::int64_t m, std::int64_t n, void* a, std::int32_t* pivots) {
  VisitNumber(type, [&](auto zero) { Factor(m, n, static_cast<decltype(zero)*>(a), pivots); });
}

void EliminateRows(DType type, std::int64_t m, std::int64_t n, std::int64_t begin, std::int64_t j,
                   const void* pivot_row, void* a) {
  VisitNumber(type, [&](auto zero) {
    using T = decltype(zero);
    Eliminate(m, n, begin, j, static_cast<const T*>(pivot_row), static_cast<T*>(a));
  });
}

std::int64_t FindPivot(DType type, std::int64_t m, std::int64_t n, std::int64_t begin, std::int64_t j,
                       const void* a, double* size) {
  std::int64_t found = 0;
  VisitNumber(type,
              [&](auto zero) { found = Find(m, n, begin, j, static_cast<const decltype(zero)*>(a), size); });
  return found;
}

}  // namespace ISA_NAMESPACE
}  // namespace ipu_model
