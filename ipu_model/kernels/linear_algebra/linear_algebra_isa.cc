// Loops of Cholesky factorisation and triangular solves. All inner loops run along contiguous rows and add
// several rows at once, so that they vectorise without reordering a sum.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/linear_algebra/linear_algebra_loops.h"
#include "kernels/vector/plain_complex_isa.h"

namespace ipu_model {
namespace ISA_NAMESPACE {
namespace {

constexpr std::int64_t kPanel = 64;
// With fewer rows, the trailing update runs on one worker.
constexpr std::int64_t kSharedRows = 192;
constexpr std::int64_t kSolvedRows = 32;

inline float Conjugate(float x) { return x; }
inline double Conjugate(double x) { return x; }
template <typename R>
Complex<R> Conjugate(Complex<R> x) {
  return {x.re, -x.im};
}
inline void Assign(float* x, float re) { *x = re; }
inline void Assign(double* x, double re) { *x = re; }
template <typename R>
void Assign(Complex<R>* x, R re) {
  *x = {re, 0};
}

// c[0:n] -= sum over k of a[k] * b[k][0:n].
template <typename T>
void SubtractRows(std::int64_t n, std::int64_t k, const T* __restrict a, const T* __restrict b,
                  std::int64_t b_stride, T* __restrict c) {
  std::int64_t r = 0;
  for (; r + 4 <= k; r += 4) {
    const T a0 = a[r], a1 = a[r + 1], a2 = a[r + 2], a3 = a[r + 3];
    const T *b0 = b + r * b_stride, *b1 = b0 + b_stride, *b2 = b1 + b_stride, *b3 = b2 + b_stride;
    for (std::int64_t j = 0; j < n; ++j) c[j] = c[j] - a0 * b0[j] - a1 * b1[j] - a2 * b2[j] - a3 * b3[j];
  }
  for (; r < k; ++r) {
    const T a0 = a[r];
    const T* b0 = b + r * b_stride;
    for (std::int64_t j = 0; j < n; ++j) c[j] = c[j] - a0 * b0[j];
  }
}

// Four rows of c together, so that each row of b is loaded once for all of them.
template <typename T>
void Multiply4(std::int64_t n, std::int64_t k, const T* a, std::int64_t a_stride, const T* __restrict b,
               std::int64_t b_stride, T* c, std::int64_t c_stride) {
  T* __restrict c0 = c, * __restrict c1 = c + c_stride, * __restrict c2 = c + 2 * c_stride, * __restrict c3 = c + 3 * c_stride;
  std::int64_t r = 0;
  for (; r + 2 <= k; r += 2) {
    const T *a0 = a + r, *a1 = a0 + a_stride, *a2 = a1 + a_stride, *a3 = a2 + a_stride;
    const T *b0 = b + r * b_stride, *b1 = b0 + b_stride;
    const T p0 = a0[0], p1 = a1[0], p2 = a2[0], p3 = a3[0], q0 = a0[1], q1 = a1[1], q2 = a2[1], q3 = a3[1];
    for (std::int64_t j = 0; j < n; ++j) {
      const T x = b0[j], y = b1[j];
      c0[j] = c0[j] - p0 * x - q0 * y;
      c1[j] = c1[j] - p1 * x - q1 * y;
      c2[j] = c2[j] - p2 * x - q2 * y;
      c3[j] = c3[j] - p3 * x - q3 * y;
    }
  }
  if (r < k) {
    for (int i = 0; i < 4; ++i)
      SubtractRows(n, 1, a + i * a_stride + r, b + r * b_stride, b_stride, c + i * c_stride);
  }
}

template <typename T>
void Multiply(std::int64_t m, std::int64_t n, std::int64_t k, const T* a, std::int64_t a_stride, const T* b,
              std::int64_t b_stride, T* c, std::int64_t c_stride) {
  std::int64_t i = 0;
  for (; i + 4 <= m; i += 4)
    Multiply4(n, k, a + i * a_stride, a_stride, b, b_stride, c + i * c_stride, c_stride);
  for (; i < m; ++i) SubtractRows(n, k, a + i * a_stride, b, b_stride, c + i * c_stride);
}

template <typename T>
void Transposed(std::int64_t m, std::int64_t n, const T* from, std::int64_t stride, bool conjugate, T* to,
                std::int64_t to_stride) {
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      to[j * to_stride + i] = conjugate ? Conjugate(from[i * stride + j]) : from[i * stride + j];
    }
  }
}

// Unblocked and right-looking, for n up to kPanel.
template <typename T>
void FactorDiagonal(std::int64_t n, T* a, std::int64_t stride) {
  using R = decltype(Real(T{}));
  T column[kPanel];
  for (std::int64_t j = 0; j < n; ++j) {
    const R pivot = Real(a[j * stride + j]);
    const R root = pivot > 0 ? std::sqrt(pivot) : std::numeric_limits<R>::quiet_NaN();
    Assign(&a[j * stride + j], root);
    for (std::int64_t i = j + 1; i < n; ++i) {
      T scale;
      Assign(&scale, root);
      a[i * stride + j] = a[i * stride + j] / scale;
      column[i] = Conjugate(a[i * stride + j]);
    }
    for (std::int64_t i = j + 1; i < n; ++i) {
      const T l = a[i * stride + j];
      T* row = a + i * stride;
      for (std::int64_t k = j + 1; k <= i; ++k) row[k] = row[k] - l * column[k];
    }
  }
}

// b l^-H: forward along the columns of b. Rows are independent: kSolvedRows at a time are solved as the
// columns of their transpose, so that the loops run along them.
template <typename T>
void SolveAdjoint(std::int64_t m, std::int64_t n, const T* l, std::int64_t l_stride, T* b,
                  std::int64_t b_stride) {
  std::vector<T> columns(static_cast<std::size_t>(n * kSolvedRows)), factor(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < m; i += kSolvedRows) {
    const std::int64_t height = std::min(kSolvedRows, m - i);
    Transposed(height, n, b + i * b_stride, b_stride, false, columns.data(), kSolvedRows);
    for (std::int64_t j = 0; j < n; ++j) {
      for (std::int64_t k = 0; k <= j; ++k)
        factor[static_cast<std::size_t>(k)] = Conjugate(l[j * l_stride + k]);
      T* column = columns.data() + j * kSolvedRows;
      SubtractRows(kSolvedRows, j, factor.data(), columns.data(), kSolvedRows, column);
      const T pivot = factor[static_cast<std::size_t>(j)];
      for (std::int64_t r = 0; r < kSolvedRows; ++r) column[r] = column[r] / pivot;
    }
    Transposed(n, height, columns.data(), kSolvedRows, false, b + i * b_stride, b_stride);
  }
}

template <typename T>
void Factor(ThreadPool* pool, std::int64_t n, T* a, T* panel) {
  for (std::int64_t begin = 0; begin < n; begin += kPanel) {
    const std::int64_t width = std::min(kPanel, n - begin), after = begin + width, rows = n - after;
    T* diagonal = a + begin * n + begin;
    FactorDiagonal(width, diagonal, n);
    if (rows == 0) break;
    T* below = a + after * n + begin;
    const auto solve = [&](std::int64_t from, std::int64_t to) {
      SolveAdjoint(to - from, width, diagonal, n, below + from * n, n);
    };
    const auto update = [&](std::int64_t from, std::int64_t to) {
      // Only the lower triangle: updates blocks of rows, each up to its last column.
      for (std::int64_t i = from; i < to; i += 16) {
        const std::int64_t height = std::min<std::int64_t>(16, to - i);
        Multiply(height, i + height, width, below + i * n, n, panel, rows, a + (after + i) * n + after, n);
      }
    };
    if (pool != nullptr && rows >= kSharedRows) {
      ParallelFor(*pool, rows, 16, solve);
      Transposed(rows, width, below, n, true, panel, rows);
      // Row i costs i steps, so pairs of blocks from both ends have equal work.
      const std::int64_t half = (rows + 1) / 2;
      ParallelFor(*pool, half, 16, [&](std::int64_t from, std::int64_t to) {
        update(from, to);
        update(std::max(half, rows - to), rows - from);
      });
    } else {
      solve(0, rows);
      Transposed(rows, width, below, n, true, panel, rows);
      update(0, rows);
    }
  }
}

template <typename T>
void Substitute(std::int64_t m, std::int64_t n, const T* a, bool backward, bool unit, T* x,
                std::int64_t stride) {
  for (std::int64_t step = 0; step < m; ++step) {
    const std::int64_t i = backward ? m - 1 - step : step;
    T* row = x + i * stride;
    const std::int64_t first = backward ? i + 1 : 0;
    SubtractRows(n, step, a + i * m + first, x + first * stride, stride, row);
    if (unit) continue;
    const T pivot = a[i * m + i];
    for (std::int64_t j = 0; j < n; ++j) row[j] = row[j] / pivot;
  }
}

}  // namespace

void CholeskyFactor(ThreadPool* pool, DType type, std::int64_t n, void* a, void* panel) {
  VisitNumber(type, [&](auto zero) {
    using T = decltype(zero);
    Factor(pool, n, static_cast<T*>(a), static_cast<T*>(panel));
  });
}

void SolveLeft(DType type, std::int64_t m, std::int64_t n, const void* a, bool backward, bool unit_diagonal,
               void* x, std::int64_t x_stride) {
  VisitNumber(type, [&](auto zero) {
    using T = decltype(zero);
    Substitute(m, n, static_cast<const T*>(a), backward, unit_diagonal, static_cast<T*>(x), x_stride);
  });
}

void SolveRightAdjoint(DType type, std::int64_t m, std::int64_t n, const void* l, std::int64_t l_stride,
                       void* b, std::int64_t b_stride) {
  VisitNumber(type, [&](auto zero) {
    using T = decltype(zero);
    SolveAdjoint(m, n, static_cast<const T*>(l), l_stride, static_cast<T*>(b), b_stride);
  });
}

void MultiplySubtract(DType type, std::int64_t m, std::int64_t n, std::int64_t k, const void* a,
                      std::int64_t a_stride, const void* bt, std::int64_t bt_stride, void* c,
                      std::int64_t c_stride) {
  VisitNumber(type, [&](auto zero) {
    using T = decltype(zero);
    Multiply(m, n, k, static_cast<const T*>(a), a_stride, static_cast<const T*>(bt), bt_stride,
             static_cast<T*>(c), c_stride);
  });
}

}  // namespace ISA_NAMESPACE
}  // namespace ipu_model
