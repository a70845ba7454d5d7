// Sweeps of shifted plane rotations; deflates where off-diagonal entries are negligible.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/linear_algebra/implicit_qr.h"

namespace ipu_model {
namespace ISA_NAMESPACE {
namespace {

// The limit of LAPACK, per row of the matrix, over all sweeps; a few are usual.
constexpr std::int64_t kMaxSweepsPerRow = 30;

// Finds (c, s) with (c, s; -s, c) (f, g) = (r, 0).
template <typename T>
struct Rotation {
  T c, s, r;
};

template <typename T>
Rotation<T> MakeRotation(T f, T g) {
  if (g == 0) return {1, 0, f};
  if (f == 0) return {0, 1, g};
  // Range in which squares neither overflow nor underflow.
  constexpr T kLow = sizeof(T) == 4 ? T(1e-16) : T(1e-140), kHigh = sizeof(T) == 4 ? T(1e16) : T(1e140);
  const T largest = std::max(std::abs(f), std::abs(g));
  const T scale = largest > kLow && largest < kHigh ? T{1} : largest;
  const T x = f / scale, y = g / scale, r = std::copysign(std::sqrt(x * x + y * y), f);
  return {x / r, y / r, r * scale};
}

template <typename T>
void Turn(const RotatedRows& rows, std::int64_t first, std::int64_t second, T c, T s) {
  if (rows.columns == 0 || (s == 0 && c == 1)) return;
  T* __restrict x = static_cast<T*>(rows.data) + first * rows.stride;
  T* __restrict y = static_cast<T*>(rows.data) + second * rows.stride;
  for (std::int64_t j = 0; j < rows.columns; ++j) {
    const T a = x[j], b = y[j];
    x[j] = c * a + s * b;
    y[j] = c * b - s * a;
  }
}

// The entries of the block [begin, end] of a matrix, counted from its start or from its end.
template <typename T>
struct BlockView {
  T *diagonal, *beside;
  std::int64_t begin, end;
  bool reversed;

  std::int64_t Row(std::int64_t i) const { return reversed ? end - i : begin + i; }
  T& d(std::int64_t i) const { return diagonal[Row(i)]; }
  T& e(std::int64_t i) const { return beside[reversed ? end - i - 1 : begin + i]; }
  std::int64_t last() const { return end - begin; }
};

// One sweep with Wilkinson's shift.
template <typename T>
void SweepTridiagonal(const BlockView<T>& block, const RotatedRows& rows) {
  const std::int64_t last = block.last();
  const T half = (block.d(last - 1) - block.d(last)) / 2, low = block.e(last - 1);
  const T root = std::copysign(std::hypot(half, low), half);
  T x = block.d(0) - (block.d(last) - low * (low / (half + root)));
  T z = block.e(0);
  for (std::int64_t k = 0; k < last; ++k) {
    const Rotation<T> g = MakeRotation(x, z);
    if (k > 0) block.e(k - 1) = g.r;
    const T t = (block.d(k + 1) - block.d(k)) * g.s + 2 * g.c * block.e(k), change = g.s * t;
    block.d(k) += change;
    block.d(k + 1) -= change;
    block.e(k) = g.c * t - block.e(k);
    if (k + 1 < last) {
      x = block.e(k);
      z = g.s * block.e(k + 1);
      block.e(k + 1) *= g.c;
    }
    Turn(rows, block.Row(k), block.Row(k + 1), g.c, g.s);
  }
}

template <typename T>
bool DiagonaliseTridiagonal(std::int64_t n, T* d, T* e, const RotatedRows& rows) {
  constexpr T kEps = std::numeric_limits<T>::epsilon() / 2, kLeast = std::numeric_limits<T>::min();
  std::int64_t sweeps = 0;
  for (std::int64_t end = n - 1; end > 0;) {
    const auto negligible = [&](std::int64_t i) {
      const T size = std::abs(e[i]);
      return size <= kLeast || size <= kEps * std::sqrt(std::abs(d[i])) * std::sqrt(std::abs(d[i + 1]));
    };
    std::int64_t begin = end;
    while (begin > 0 && !negligible(begin - 1)) --begin;
    if (begin > 0) e[begin - 1] = 0;
    if (begin == end) {
      --end;
      continue;
    }
    if (++sweeps > kMaxSweepsPerRow * n) return false;
    // Chase the bulge towards the end with the smaller entries.
    SweepTridiagonal<T>({d, e, begin, end, std::abs(d[end]) > std::abs(d[begin])}, rows);
  }
  return true;
}

// Returns the smaller singular value of ((f, g), (0, h)), to full relative accuracy.
template <typename T>
T SmallerSingularValue(T f, T g, T h) {
  f = std::abs(f);
  g = std::abs(g);
  h = std::abs(h);
  const T low = std::min(f, h), high = std::max(f, h);
  if (low == 0) return 0;
  const T as = 1 + low / high, at = (high - low) / high;
  if (g < high) {
    const T au = (g / high) * (g / high);
    return low * (2 / (std::sqrt(as * as + au) + std::sqrt(at * at + au)));
  }
  const T au = high / g;
  if (au == 0) return low * high / g;
  const T c = 1 / (std::sqrt(1 + (as * au) * (as * au)) + std::sqrt(1 + (at * au) * (at * au)));
  return 2 * (low * c) * au;
}

// One sweep (Demmel and Kahan, Accurate singular values of bidiagonal matrices, 1990). Seen from the end, the
// matrix is its transpose, so left and right are swapped.
template <typename T>
void SweepBidiagonal(const BlockView<T>& block, T shift, const RotatedRows& left, const RotatedRows& right) {
  const std::int64_t last = block.last();
  const RotatedRows& outer = block.reversed ? left : right;
  const RotatedRows& inner = block.reversed ? right : left;
  if (shift == 0) {
    T c = 1;
    Rotation<T> old{1, 0, 0};
    for (std::int64_t i = 0; i < last; ++i) {
      const Rotation<T> g = MakeRotation(block.d(i) * c, block.e(i));
      if (i > 0) block.e(i - 1) = old.s * g.r;
      old = MakeRotation(old.c * g.r, block.d(i + 1) * g.s);
      block.d(i) = old.r;
      c = g.c;
      Turn(outer, block.Row(i), block.Row(i + 1), g.c, g.s);
      Turn(inner, block.Row(i), block.Row(i + 1), old.c, old.s);
    }
    const T h = block.d(last) * c;
    block.d(last) = h * old.c;
    block.e(last - 1) = h * old.s;
    return;
  }
  const T first = block.d(0);
  T f = (std::abs(first) - shift) * (std::copysign(T{1}, first) + shift / first), g = block.e(0);
  for (std::int64_t i = 0; i < last; ++i) {
    const Rotation<T> r = MakeRotation(f, g);
    if (i > 0) block.e(i - 1) = r.r;
    f = r.c * block.d(i) + r.s * block.e(i);
    block.e(i) = r.c * block.e(i) - r.s * block.d(i);
    g = r.s * block.d(i + 1);
    block.d(i + 1) *= r.c;
    const Rotation<T> l = MakeRotation(f, g);
    block.d(i) = l.r;
    f = l.c * block.e(i) + l.s * block.d(i + 1);
    block.d(i + 1) = l.c * block.d(i + 1) - l.s * block.e(i);
    if (i + 1 < last) {
      g = l.s * block.e(i + 1);
      block.e(i + 1) *= l.c;
    }
    Turn(outer, block.Row(i), block.Row(i + 1), r.c, r.s);
    Turn(inner, block.Row(i), block.Row(i + 1), l.c, l.s);
  }
  block.e(last - 1) = f;
}

// Sets negligible entries of the block to zero, as seen from its start; returns true if there was one. Sets
// `least` to a bound of the block's smallest singular value.
template <typename T>
bool Deflate(const BlockView<T>& block, T tolerance, T* least) {
  const std::int64_t last = block.last();
  if (std::abs(block.e(last - 1)) <= tolerance * std::abs(block.d(last))) {
    block.e(last - 1) = 0;
    return true;
  }
  T mu = std::abs(block.d(0));
  *least = mu;
  for (std::int64_t i = 0; i < last; ++i) {
    if (std::abs(block.e(i)) <= tolerance * mu) {
      block.e(i) = 0;
      return true;
    }
    mu = std::abs(block.d(i + 1)) * (mu / (mu + std::abs(block.e(i))));
    *least = std::min(*least, mu);
  }
  return false;
}

template <typename T>
bool DiagonaliseBidiagonal(std::int64_t n, T* d, T* e, const RotatedRows& left, const RotatedRows& right) {
  constexpr T kEps = std::numeric_limits<T>::epsilon() / 2;
  const T tolerance = std::clamp<T>(std::pow(kEps, T{-0.125}), 10, 100) * kEps;
  const T rows = static_cast<T>(n);
  T smallest = std::abs(d[0]), mu = smallest;
  for (std::int64_t i = 1; i < n && smallest > 0; ++i) {
    mu = std::abs(d[i]) * (mu / (mu + std::abs(e[i - 1])));
    smallest = std::min(smallest, mu);
  }
  const T threshold =
      std::max(tolerance * smallest / std::sqrt(rows), 6 * rows * rows * std::numeric_limits<T>::min());
  std::int64_t sweeps = 0, old_begin = -1, old_end = -1;
  bool reversed = false;
  for (std::int64_t end = n - 1; end > 0;) {
    std::int64_t begin = end;
    T largest = std::abs(d[end]);
    for (; begin > 0 && std::abs(e[begin - 1]) > threshold; --begin) {
      largest = std::max({largest, std::abs(d[begin - 1]), std::abs(e[begin - 1])});
    }
    if (begin > 0) e[begin - 1] = 0;
    if (begin == end) {
      --end;
      continue;
    }
    if (++sweeps > kMaxSweepsPerRow * n) return false;
    // In a new block, chase the bulge towards the end with the smaller entries.
    if (begin > old_end || end < old_begin) reversed = std::abs(d[begin]) < std::abs(d[end]);
    old_begin = begin;
    old_end = end;
    const BlockView<T> block{d, e, begin, end, reversed};
    T least = 0;
    if (Deflate(block, tolerance, &least)) continue;
    T shift = 0;
    if (rows * tolerance * (least / largest) > std::max(kEps, T{0.01} * tolerance)) {
      const std::int64_t last = block.last();
      shift = SmallerSingularValue(block.d(last - 1), block.e(last - 1), block.d(last));
      const T ratio = shift / std::abs(block.d(0));
      if (!(ratio * ratio >= kEps)) shift = 0;
    }
    SweepBidiagonal(block, shift, left, right);
  }
  for (std::int64_t i = 0; i < n; ++i) {
    if (!std::signbit(d[i])) continue;
    d[i] = -d[i];
    T* row = static_cast<T*>(right.data) + i * right.stride;
    for (std::int64_t j = 0; j < right.columns; ++j) row[j] = -row[j];
  }
  return true;
}

}  // namespace

bool TridiagonalQr(DType type, std::int64_t n, void* d, void* e, const RotatedRows& rows) {
  if (type == DType::kF32)
    return DiagonaliseTridiagonal(n, static_cast<float*>(d), static_cast<float*>(e), rows);
  return DiagonaliseTridiagonal(n, static_cast<double*>(d), static_cast<double*>(e), rows);
}

bool BidiagonalQr(DType type, std::int64_t n, void* d, void* e, const RotatedRows& left,
                  const RotatedRows& right) {
  if (type == DType::kF32)
    return DiagonaliseBidiagonal(n, static_cast<float*>(d), static_cast<float*>(e), left, right);
  return DiagonaliseBidiagonal(n, static_cast<double*>(d), static_cast<double*>(e), left, right);
}

}  // namespace ISA_NAMESPACE
}  // namespace ipu_model
