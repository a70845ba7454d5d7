// Scaling, balancing, reduction to Hessenberg form, and the QR algorithm with LAPACK's (lahqr's) shifts and
// deflation, of one matrix, by rows.
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "kernels/linear_algebra/schur.h"
#include "kernels/linear_algebra/schur_blocks.h"
#include "kernels/vector/plain_complex_isa.h"

namespace ipu_model {
namespace ISA_NAMESPACE {
namespace {

constexpr int kMost = static_cast<int>(hlo::kMostSchurRows);
// Sweeps without deflation between two exceptional shifts, and per row of the matrix before giving up.
constexpr int kExceptionalEvery = 10, kSweepsPerRow = 30;
// The exceptional shifts are the eigenvalues of ((0.75, -0.4375), (1, 0.75)) times a size.
constexpr double kExceptionalDiagonal = 0.75, kExceptionalAbove = -0.4375;
// Balancing ends after so many sweeps; a change must reduce the sum of two norms by at least 5 %.
constexpr int kBalancingSweeps = 50;
constexpr double kWorth = 0.95;

template <typename T>
using RealOf = decltype(Real(T{}));
template <typename T>
constexpr int kParts = std::is_floating_point_v<T> ? 1 : 2;

template <typename R, typename = std::enable_if_t<std::is_floating_point_v<R>>>
R Conj(R x) {
  return x;
}
template <typename R>
Complex<R> Conj(Complex<R> x) {
  return {x.re, -x.im};
}
template <typename R, typename = std::enable_if_t<std::is_floating_point_v<R>>>
R Imag(R) {
  return 0;
}
template <typename R>
R Imag(Complex<R> x) {
  return x.im;
}
// |Re x| + |Im x|.
template <typename T>
RealOf<T> Size(T x) {
  return std::abs(Real(x)) + std::abs(Imag(x));
}
template <typename T>
RealOf<T> Square(T x) {
  return Real(x) * Real(x) + Imag(x) * Imag(x);
}
template <typename T>
T FromReal(RealOf<T> re) {
  if constexpr (std::is_floating_point_v<T>) {
    return re;
  } else {
    return {re, 0};
  }
}
template <typename T>
T Times(T x, RealOf<T> factor) {
  if constexpr (std::is_floating_point_v<T>) {
    return x * factor;
  } else {
    return {x.re * factor, x.im * factor};
  }
}
template <typename R>
Complex<R> SquareRoot(Complex<R> x) {
  const R a = std::abs(x.re), b = std::abs(x.im), large = std::max(a, b), small = std::min(a, b);
  if (large == 0) return {0, 0};
  const R length = large * std::sqrt(1 + small / large * (small / large));
  const R w = std::sqrt((a + length) / 2);
  return x.re >= 0 ? Complex<R>{w, x.im / (2 * w)} : Complex<R>{b / (2 * w), std::copysign(w, x.im)};
}

// The matrix [n, n], and Z if it is wanted.
template <typename T>
struct Form {
  int n;
  T *t, *z;
  T& at(int i, int j) const { return t[i * n + j]; }
};

// Scales the entries to about 1 by the power of two that is returned; 0 if they are not finite.
template <typename T>
RealOf<T> ScaleToOne(const Form<T>& f) {
  using R = RealOf<T>;
  using Limits = std::numeric_limits<R>;
  R* const parts = reinterpret_cast<R*>(f.t);
  const int count = f.n * f.n * kParts<T>;
  R largest = 0;
  bool finite = true;
  for (int i = 0; i < count; ++i) {
    const R size = std::abs(parts[i]);
    finite = finite && size <= Limits::max();
    largest = std::max(largest, size);
  }
  if (!finite) return 0;
  if (largest == 0) return 1;
  int exponent = 0;
  std::frexp(largest, &exponent);
  exponent = std::clamp(exponent, Limits::min_exponent + 2, Limits::max_exponent - 2);
  const R factor = std::ldexp(R{1}, -exponent);
  for (int i = 0; i < count; ++i) parts[i] *= factor;
  return std::ldexp(R{1}, exponent);
}

template <typename T>
bool IsEmpty(const Form<T>& f, int place, bool row, int first, int last) {
  for (int k = first; k <= last; ++k)
    if (k != place && Size(row ? f.at(place, k) : f.at(k, place)) != 0) return false;
  return true;
}

// Makes the matrix triangular but for the rows from `first` to `last`: `order` has the old places.
template <typename T>
void Permute(const Form<T>& f, int* order, int* first, int* last) {
  for (int i = 0; i < f.n; ++i) order[i] = i;
  *first = 0;
  *last = f.n - 1;
  const auto swap = [&](int a, int b) {
    if (a == b) return;
    for (int k = 0; k < f.n; ++k) std::swap(f.at(a, k), f.at(b, k));
    for (int k = 0; k < f.n; ++k) std::swap(f.at(k, a), f.at(k, b));
    std::swap(order[a], order[b]);
  };
  while (*first < *last) {
    int row = *last, column = *first;
    while (row >= *first && !IsEmpty(f, row, true, *first, *last)) --row;
    if (row >= *first) {
      swap(row, (*last)--);
      continue;
    }
    while (column <= *last && !IsEmpty(f, column, false, *first, *last)) ++column;
    if (column > *last) return;
    swap(column, (*first)++);
  }
}

// Makes the norms of rows and columns nearly equal; `scale` has the factors of the columns.
template <typename T>
void Balance(const Form<T>& f, int first, int last, RealOf<T>* scale) {
  using R = RealOf<T>;
  constexpr int kLargest = std::numeric_limits<R>::max_exponent / 4;
  int exponents[kMost] = {};
  bool changed = true;
  for (int sweep = 0; sweep < kBalancingSweeps && changed; ++sweep) {
    changed = false;
    for (int i = first; i <= last; ++i) {
      R row = 0, column = 0;
      for (int k = first; k <= last; ++k) {
        row += Square(f.at(i, k));
        column += Square(f.at(k, i));
      }
      if (row == 0 || column == 0) continue;
      row = std::sqrt(row);
      column = std::sqrt(column);
      int power = 0;
      R r = row, c = column;
      for (; c < r / 2 && exponents[i] + power < kLargest; ++power) {
        c *= 2;
        r /= 2;
      }
      for (; c / 2 >= r && exponents[i] + power > -kLargest; --power) {
        c /= 2;
        r *= 2;
      }
      if (power == 0 || !(c + r < static_cast<R>(kWorth) * (column + row))) continue;
      const R factor = std::ldexp(R{1}, power), inverse = std::ldexp(R{1}, -power);
      for (int k = 0; k < f.n; ++k) f.at(k, i) = Times(f.at(k, i), factor);
      for (int k = 0; k < f.n; ++k) f.at(i, k) = Times(f.at(i, k), inverse);
      exponents[i] += power;
      changed = true;
    }
  }
  for (int i = 0; i < f.n; ++i) scale[i] = std::ldexp(R{1}, exponents[i]);
}

// Multiplies the columns from `begin` on, of rows [0, rows), by 1 - tau v v^H of `count` elements.
template <typename T>
void ReflectColumns(int n, int rows, int begin, int count, T tau, const T* v, T* x) {
  for (int i = 0; i < rows; ++i) {
    T* const row = x + i * n + begin;
    T sum{};
    for (int k = 0; k < count; ++k) sum = sum + row[k] * v[k];
    sum = tau * sum;
    for (int k = 0; k < count; ++k) row[k] = row[k] - sum * Conj(v[k]);
  }
}

// Multiplies the rows from `begin` on, of columns [from, n), by its adjoint.
template <typename T>
void ReflectRows(int n, int from, int begin, int count, T tau, const T* v, T* x) {
  T sums[kMost];
  T* const rows = x + begin * n;
  for (int j = from; j < n; ++j) sums[j] = Conj(v[0]) * rows[j];
  for (int k = 1; k < count; ++k)
    for (int j = from; j < n; ++j) sums[j] = sums[j] + Conj(v[k]) * rows[k * n + j];
  for (int j = from; j < n; ++j) sums[j] = Conj(tau) * sums[j];
  for (int k = 0; k < count; ++k)
    for (int j = from; j < n; ++j) rows[k * n + j] = rows[k * n + j] - v[k] * sums[j];
}

// The reflection whose adjoint makes x zero after its first entry, which becomes the real `beta`: x becomes
// v. Returns false if there is nothing to do.
template <typename T>
bool FindReflection(int count, T* x, T* tau, RealOf<T>* beta) {
  using R = RealOf<T>;
  R below = 0;
  for (int k = 1; k < count; ++k) below = std::max(below, Size(x[k]));
  if (below == 0 && Imag(x[0]) == 0) return false;
  const R scale = std::max(below, Size(x[0])), inverse = 1 / scale;
  R squares = 0;
  for (int k = 0; k < count; ++k) squares += Square(Times(x[k], inverse));
  const T first = Times(x[0], inverse);
  const R length = -std::copysign(std::sqrt(squares), Real(first));
  *tau = Times(FromReal<T>(length) - first, 1 / length);
  const T divisor = FromReal<T>(1) / (first - FromReal<T>(length));
  x[0] = FromReal<T>(1);
  for (int k = 1; k < count; ++k) x[k] = Times(x[k], inverse) * divisor;
  *beta = length * scale;
  return true;
}

template <typename T>
void ReduceToHessenberg(const Form<T>& f) {
  const int n = f.n;
  for (int j = 0; j + 1 < n; ++j) {
    const int count = n - j - 1;
    T v[kMost], tau;
    RealOf<T> beta;
    for (int k = 0; k < count; ++k) v[k] = f.at(j + 1 + k, j);
    if (!FindReflection(count, v, &tau, &beta)) continue;
    for (int k = 0; k < count; ++k) f.at(j + 1 + k, j) = FromReal<T>(k == 0 ? beta : 0);
    ReflectRows(n, j + 1, j + 1, count, tau, v, f.t);
    ReflectColumns(n, n, j + 1, count, tau, v, f.t);
    if (f.z != nullptr) ReflectColumns(n, n, j + 1, count, tau, v, f.z);
  }
}

// The first row of the block that ends with row `end`: the entry before it under the diagonal is negligible
// (Ahues and Tisseur, A new deflation criterion for the QR algorithm, 1997).
template <typename T>
int ActiveBegin(const Form<T>& f, int end) {
  using R = RealOf<T>;
  constexpr R kUlp = std::numeric_limits<R>::epsilon();
  const R least = std::numeric_limits<R>::min() * (static_cast<R>(f.n) / kUlp);
  for (int l = end; l > 0; --l) {
    const T before = f.at(l - 1, l - 1), own = f.at(l, l);
    const R low = Size(f.at(l, l - 1)), up = Size(f.at(l - 1, l));
    if (low <= least) return l;
    R beside = Size(before) + Size(own);
    if (beside == 0) {
      if (l >= 2) beside += Size(f.at(l - 1, l - 2));
      if (l + 1 < f.n) beside += Size(f.at(l + 1, l));
    }
    if (low > kUlp * beside) continue;
    const R apart = Size(before - own);
    const R ab = std::max(low, up), ba = std::min(low, up);
    const R aa = std::max(Size(own), apart), bb = std::min(Size(own), apart), total = aa + ab;
    if (ba * (ab / total) <= std::max(least, kUlp * (bb * (aa / total)))) return l;
  }
  return 0;
}

// A sweep of reflections of `kWidth` rows each, the first of which takes `v` to its first entry.
template <int kWidth, typename T>
void Chase(const Form<T>& f, int begin, int start, int end, T* v) {
  const int n = f.n;
  for (int k = start; k < end; ++k) {
    const int count = std::min(kWidth, end - k + 1);
    if (k > start)
      for (int i = 0; i < count; ++i) v[i] = f.at(k + i, k - 1);
    T tau;
    RealOf<T> beta;
    if (!FindReflection(count, v, &tau, &beta)) continue;
    if (k > start) {
      for (int i = 0; i < count; ++i) f.at(k + i, k - 1) = FromReal<T>(i == 0 ? beta : 0);
    } else if (k > begin) {
      // What comes under this entry is negligible.
      f.at(k, k - 1) = f.at(k, k - 1) - Conj(tau) * f.at(k, k - 1);
    }
    const int rows = std::min(k + kWidth, end) + 1;
    if (count == kWidth) {  // a constant, so that the loops are unrolled
      ReflectRows(n, k, k, kWidth, tau, v, f.t);
      ReflectColumns(n, rows, k, kWidth, tau, v, f.t);
      if (f.z != nullptr) ReflectColumns(n, n, k, kWidth, tau, v, f.z);
    } else {
      ReflectRows(n, k, k, count, tau, v, f.t);
      ReflectColumns(n, rows, k, count, tau, v, f.t);
      if (f.z != nullptr) ReflectColumns(n, n, k, count, tau, v, f.z);
    }
  }
}

// Francis's step with both eigenvalues of the last 2 x 2 block, or twice the one nearer to the last entry.
template <typename R>
void Sweep(const Form<R>& f, int begin, int end, int sweeps) {
  R h11 = f.at(end - 1, end - 1), h21 = f.at(end, end - 1), h12 = f.at(end - 1, end), h22 = f.at(end, end);
  if (sweeps % kExceptionalEvery == 0) {
    const bool from_end = sweeps % (2 * kExceptionalEvery) == 0;
    const R size = from_end ? std::abs(h21) + std::abs(f.at(end - 1, end - 2))
                            : std::abs(f.at(begin + 1, begin)) + std::abs(f.at(begin + 2, begin + 1));
    h11 = h22 = static_cast<R>(kExceptionalDiagonal) * size + (from_end ? h22 : f.at(begin, begin));
    h21 = size;
    h12 = static_cast<R>(kExceptionalAbove) * size;
  }
  const R scale = std::abs(h11) + std::abs(h12) + std::abs(h21) + std::abs(h22);
  R shift = 0, turn = 0;
  if (scale > 0) {
    const R inverse = 1 / scale;
    h11 *= inverse;
    h12 *= inverse;
    h21 *= inverse;
    h22 *= inverse;
    const R mean = (h11 + h22) / 2, determinant = (h11 - mean) * (h22 - mean) - h12 * h21;
    const R root = std::sqrt(std::abs(determinant)), upper = mean + root, lower = mean - root;
    const R nearer = std::abs(upper - h22) <= std::abs(lower - h22) ? upper : lower;
    shift = (determinant >= 0 ? mean : nearer) * scale;
    turn = determinant >= 0 ? root * scale : 0;
  }
  R v[3];
  int start = end - 2;
  for (;; --start) {  // the sweep may start where two entries under the diagonal are small
    const R d = f.at(start, start), low = f.at(start + 1, start), next = f.at(start + 1, start + 1);
    R total = std::abs(d - shift) + std::abs(turn) + std::abs(low);
    if (total == 0) total = 1;
    const R ratio = low / total;
    v[0] = ratio * f.at(start, start + 1) + (d - shift) * ((d - shift) / total) + turn * (turn / total);
    v[1] = ratio * (d + next - 2 * shift);
    v[2] = ratio * f.at(start + 2, start + 1);
    const R largest = std::abs(v[0]) + std::abs(v[1]) + std::abs(v[2]),
            inverse = largest == 0 ? 1 : 1 / largest;
    for (R& x : v) x *= inverse;
    if (start == begin) break;
    const R around = std::abs(f.at(start - 1, start - 1)) + std::abs(d) + std::abs(next);
    const R coupling = std::abs(f.at(start, start - 1)) * (std::abs(v[1]) + std::abs(v[2]));
    if (coupling <= std::numeric_limits<R>::epsilon() * std::abs(v[0]) * around) break;
  }
  Chase<3>(f, begin, start, end, v);
}

// The complex step with Wilkinson's shift.
template <typename R>
void Sweep(const Form<Complex<R>>& f, int begin, int end, int sweeps) {
  using C = Complex<R>;
  const C h11 = f.at(end - 1, end - 1), h21 = f.at(end, end - 1), h12 = f.at(end - 1, end),
          h22 = f.at(end, end);
  C shift = h22;
  if (sweeps % kExceptionalEvery == 0) {
    const bool from_end = sweeps % (2 * kExceptionalEvery) == 0;
    const R size = static_cast<R>(kExceptionalDiagonal) * Size(from_end ? h21 : f.at(begin + 1, begin));
    shift = C{size, 0} + (from_end ? h22 : f.at(begin, begin));
  } else if (const C product = SquareRoot(h12) * SquareRoot(h21); Size(product) != 0) {
    const C half = Times(h11 - h22, R{0.5});
    const R inverse = 1 / std::max(Size(product), Size(half));
    const C x = Times(half, inverse), u = Times(product, inverse);
    C y = SquareRoot(x * x + u * u);
    if (x.re * y.re + x.im * y.im < 0) y = C{-y.re, -y.im};
    shift = h22 - product * (u / (x + y));
  }
  C v[2];
  int start = end - 1;
  for (;; --start) {
    const C d = f.at(start, start), low = f.at(start + 1, start);
    R total = Size(d - shift) + Size(low);
    if (total == 0) total = 1;
    v[0] = Times(d - shift, 1 / total);
    v[1] = Times(low, 1 / total);
    if (start == begin) break;
    const R around = Size(v[0]) * (Size(d) + Size(f.at(start + 1, start + 1)));
    const R coupling = Size(f.at(start, start - 1)) * Size(v[1]);
    if (coupling <= std::numeric_limits<R>::epsilon() * around) break;
  }
  Chase<2>(f, begin, start, end, v);
}

template <typename T>
bool ReduceToBlocks(const Form<T>& f) {
  // The last block of a real matrix may have two rows.
  constexpr int kRows = std::is_floating_point_v<T> ? 2 : 1;
  const int most = kSweepsPerRow * std::max(10, f.n);
  int sweeps = 0;
  for (int end = f.n - 1; end > 0;) {
    const int begin = ActiveBegin(f, end);
    if (begin > 0) f.at(begin, begin - 1) = T{};
    if (begin > end - kRows) {
      end = begin - 1;
      sweeps = 0;
      continue;
    }
    if (++sweeps > most) return false;
    Sweep(f, begin, end, sweeps);
  }
  return true;
}

// Makes each 2 x 2 block ((x, b), (c, x)) with b c < 0, or triangular.
template <typename R>
void Standardise(const Form<R>& f) {
  const int n = f.n;
  for (int i = 0; i + 1 < n; ++i) {
    if (f.at(i + 1, i) == 0) continue;
    const StandardBlock<R> block =
        Standardised(f.at(i, i), f.at(i, i + 1), f.at(i + 1, i), f.at(i + 1, i + 1));
    const auto turn = [&](R& x, R& y) {
      const R a = x, b = y;
      x = block.cosine * a + block.sine * b;
      y = block.cosine * b - block.sine * a;
    };
    for (int j = i + 2; j < n; ++j) turn(f.at(i, j), f.at(i + 1, j));
    for (int k = 0; k < i; ++k) turn(f.at(k, i), f.at(k, i + 1));
    if (f.z != nullptr)
      for (int k = 0; k < n; ++k) turn(f.z[k * n + i], f.z[k * n + i + 1]);
    f.at(i, i) = block.a;
    f.at(i, i + 1) = block.b;
    f.at(i + 1, i) = block.c;
    f.at(i + 1, i + 1) = block.d;
  }
}

template <typename T>
void SchurOf(const Form<T>& f, bool balanced) {
  using R = RealOf<T>;
  const int n = f.n, count = n * n;
  const R size = ScaleToOne(f);
  bool good = size != 0;
  if (good) {
    int order[kMost], first = 0, last = 0;
    R scale[kMost];
    std::fill(scale, scale + n, R{1});
    Permute(f, order, &first, &last);
    if (balanced) Balance(f, first, last, scale);
    if (f.z != nullptr) {
      std::fill(f.z, f.z + count, T{});
      for (int i = 0; i < n; ++i) f.z[order[i] * n + i] = FromReal<T>(scale[i]);
    }
    ReduceToHessenberg(f);
    good = ReduceToBlocks(f);
  }
  if (!good) {
    constexpr R kNan = std::numeric_limits<R>::quiet_NaN();
    std::fill(reinterpret_cast<R*>(f.t), reinterpret_cast<R*>(f.t) + count * kParts<T>, kNan);
    if (f.z != nullptr)
      std::fill(reinterpret_cast<R*>(f.z), reinterpret_cast<R*>(f.z) + count * kParts<T>, kNan);
    return;
  }
  if constexpr (std::is_floating_point_v<T>) Standardise(f);
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) f.at(i, j) = i > j + (kParts<T> == 1 ? 1 : 0) ? T{} : Times(f.at(i, j), size);
}

}  // namespace

void SchurForm(DType type, std::int64_t n, bool balanced, void* t, void* z) {
  VisitNumber(type, [&](auto zero) {
    using T = decltype(zero);
    SchurOf(Form<T>{static_cast<int>(n), static_cast<T*>(t), static_cast<T*>(z)}, balanced);
  });
}

}  // namespace ISA_NAMESPACE
}  // namespace ipu_model
