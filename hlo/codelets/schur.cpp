// The Schur form of small matrices. Workers share the matrices, each of which one worker does all of:
// scaling, balancing, reduction to Hessenberg form, and the QR algorithm with LAPACK's (lahqr's) shifts and
// deflation.
#include <limits>

#include "complex.hpp"

namespace hlo {

constexpr int kMost = 16;  // rows
// Sweeps without deflation between two exceptional shifts, and per row of the matrix before giving up.
constexpr int kExceptionalEvery = 10, kSweepsPerRow = 30;
// The exceptional shifts are the eigenvalues of ((0.75, -0.4375), (1, 0.75)) times a size.
constexpr float kExceptionalDiagonal = 0.75f, kExceptionalAbove = -0.4375f;
// Balancing ends after so many sweeps; a change must reduce the sum of two norms by at least 5 %.
constexpr int kBalancingSweeps = 50;
constexpr float kWorth = 0.95f;

inline float minOf(float a, float b) { return b < a ? b : a; }
inline float maxOf(float a, float b) { return a < b ? b : a; }
template <typename T>
inline void exchange(T& a, T& b) {
  const T old = a;
  a = b;
  b = old;
}

template <typename T>
constexpr int kParts = sizeof(T) / sizeof(float);
template <typename T>
constexpr bool kIsReal = kParts<T> == 1;
inline float imagOf(float) { return 0; }
inline float imagOf(Complex x) { return x.im; }
// |Re x| + |Im x|.
inline float sizeOf(float x) { return std::fabs(x); }
inline float sizeOf(Complex x) { return std::fabs(x.re) + std::fabs(x.im); }

struct StandardBlock {
  float a, b, c, d, cosine, sine;
};

inline float lengthOf(float x, float y) {
  const float large = maxOf(std::fabs(x), std::fabs(y)), small = minOf(std::fabs(x), std::fabs(y));
  return large == 0 ? 0 : large * std::sqrt(1 + small / large * (small / large));
}
inline float signOf(float x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }

// ((a, b), (c, d)) after a rotation: triangular, or with equal entries on the diagonal and b c < 0. Entries
// are of at most about 1.
inline StandardBlock standardised(float a, float b, float c, float d) {
  constexpr float kEps = std::numeric_limits<float>::epsilon();
  if (c == 0 || (a == d && signOf(b) * signOf(c) < 0)) return {a, b, c, d, 1, 0};
  if (b == 0) return {d, -c, 0, a, 0, 1};
  const float half = (a - d) / 2, larger = maxOf(std::fabs(b), std::fabs(c)),
              smaller = minOf(std::fabs(b), std::fabs(c)) * signOf(b) * signOf(c);
  const float scale = maxOf(std::fabs(half), larger);
  const float value = half / scale * half + larger / scale * smaller;
  if (value >= 4 * kEps) {  // two real eigenvalues
    const float root = half + std::copysign(std::sqrt(scale) * std::sqrt(value), half),
                length = lengthOf(c, root);
    return {d + root, b - c, 0, d - larger / root * smaller, root / length, c / length};
  }
  // Complex or nearly equal eigenvalues: make the diagonal entries equal.
  const float sigma = b + c;
  float length = lengthOf(sigma, a - d);
  if (length == 0) length = 1;
  const float cosine = std::sqrt((1 + std::fabs(sigma) / length) / 2);
  const float sine = -(half / (length * cosine)) * std::copysign(1.0f, sigma);
  const float aa = a * cosine + b * sine, bb = b * cosine - a * sine, cc = c * cosine + d * sine,
              dd = d * cosine - c * sine;
  const float b1 = bb * cosine + dd * sine, c1 = cc * cosine - aa * sine;
  const float mean = (aa * cosine + cc * sine + (dd * cosine - bb * sine)) / 2;
  if (c1 == 0) return {mean, b1, 0, mean, cosine, sine};
  if (b1 == 0) return {mean, -c1, 0, mean, -sine, cosine};
  if (signOf(b1) * signOf(c1) < 0) return {mean, b1, c1, mean, cosine, sine};
  const float rootB = std::sqrt(std::fabs(b1)), rootC = std::sqrt(std::fabs(c1));
  const float shift = std::copysign(rootB * rootC, c1), inverse = 1 / std::sqrt(std::fabs(b1 + c1));
  const float turn = rootB * inverse, slide = rootC * inverse;
  return {mean + shift, b1 - c1, 0, mean - shift, cosine * turn - sine * slide, cosine * slide + sine * turn};
}

template <typename T>
float squareOf(T x) {
  return realOf(x) * realOf(x) + imagOf(x) * imagOf(x);
}
template <typename T>
T fromReal(float re) {
  if constexpr (kIsReal<T>) {
    return re;
  } else {
    return {re, 0};
  }
}
template <typename T>
T times(T x, float factor) {
  if constexpr (kIsReal<T>) {
    return x * factor;
  } else {
    return {x.re * factor, x.im * factor};
  }
}
inline Complex squareRoot(Complex x) {
  const float a = std::fabs(x.re), b = std::fabs(x.im), large = maxOf(a, b), small = minOf(a, b);
  if (large == 0) return {0, 0};
  const float length = large * std::sqrt(1 + small / large * (small / large));
  const float w = std::sqrt((a + length) / 2);
  return x.re >= 0 ? Complex{w, x.im / (2 * w)} : Complex{b / (2 * w), std::copysign(w, x.im)};
}

// The matrix [n, n], and Z if it is wanted.
template <typename T>
struct Form {
  int n;
  T *t, *z;
  T& at(int i, int j) const { return t[i * n + j]; }
};

// 2^exponent, of normal numbers.
inline float powerOfTwo(int exponent) { return bitsAs<float>(static_cast<unsigned>(exponent + 127) << 23); }

// Scales the entries to about 1 by the power of two that is returned; 0 if they are not finite.
template <typename T>
float scaleToOne(const Form<T>& f) {
  float* const parts = reinterpret_cast<float*>(f.t);
  const int count = f.n * f.n * kParts<T>;
  float largest = 0;
  for (int i = 0; i < count; ++i) {
    const float size = std::fabs(parts[i]);
    if (!(size <= std::numeric_limits<float>::max())) return 0;
    largest = maxOf(largest, size);
  }
  if (largest == 0) return 1;
  int exponent = static_cast<int>(bitsAs<unsigned>(largest) >> 23) - 126;
  exponent = exponent < -123 ? -123 : exponent > 126 ? 126 : exponent;
  const float factor = powerOfTwo(-exponent);
  for (int i = 0; i < count; ++i) parts[i] *= factor;
  return powerOfTwo(exponent);
}

template <typename T>
bool isEmpty(const Form<T>& f, int place, bool row, int first, int last) {
  for (int k = first; k <= last; ++k)
    if (k != place && sizeOf(row ? f.at(place, k) : f.at(k, place)) != 0) return false;
  return true;
}

// Makes the matrix triangular but for the rows from `first` to `last`: `order` has the old places.
template <typename T>
void permute(const Form<T>& f, int* order, int* first, int* last) {
  for (int i = 0; i < f.n; ++i) order[i] = i;
  *first = 0;
  *last = f.n - 1;
  const auto swap = [&](int a, int b) {
    if (a == b) return;
    for (int k = 0; k < f.n; ++k) exchange(f.at(a, k), f.at(b, k));
    for (int k = 0; k < f.n; ++k) exchange(f.at(k, a), f.at(k, b));
    exchange(order[a], order[b]);
  };
  while (*first < *last) {
    int row = *last, column = *first;
    while (row >= *first && !isEmpty(f, row, true, *first, *last)) --row;
    if (row >= *first) {
      swap(row, (*last)--);
      continue;
    }
    while (column <= *last && !isEmpty(f, column, false, *first, *last)) ++column;
    if (column > *last) return;
    swap(column, (*first)++);
  }
}

// Makes the norms of rows and columns nearly equal; `scale` has the factors of the columns.
template <typename T>
void balance(const Form<T>& f, int first, int last, float* scale) {
  constexpr int kLargest = 32;
  int exponents[kMost] = {};
  bool changed = true;
  for (int sweep = 0; sweep < kBalancingSweeps && changed; ++sweep) {
    changed = false;
    for (int i = first; i <= last; ++i) {
      float row = 0, column = 0;
      for (int k = first; k <= last; ++k) {
        row += squareOf(f.at(i, k));
        column += squareOf(f.at(k, i));
      }
      if (row == 0 || column == 0) continue;
      row = std::sqrt(row);
      column = std::sqrt(column);
      int power = 0;
      float r = row, c = column;
      for (; c < r / 2 && exponents[i] + power < kLargest; ++power) {
        c *= 2;
        r /= 2;
      }
      for (; c / 2 >= r && exponents[i] + power > -kLargest; --power) {
        c /= 2;
        r *= 2;
      }
      if (power == 0 || !(c + r < kWorth * (column + row))) continue;
      const float factor = powerOfTwo(power), inverse = powerOfTwo(-power);
      for (int k = 0; k < f.n; ++k) f.at(k, i) = times(f.at(k, i), factor);
      for (int k = 0; k < f.n; ++k) f.at(i, k) = times(f.at(i, k), inverse);
      exponents[i] += power;
      changed = true;
    }
  }
  for (int i = 0; i < f.n; ++i) scale[i] = powerOfTwo(exponents[i]);
}

// Multiplies the columns from `begin` on, of rows [0, rows), by 1 - tau v v^H of `count` elements.
template <typename T>
void reflectColumns(int n, int rows, int begin, int count, T tau, const T* v, T* x) {
  for (int i = 0; i < rows; ++i) {
    T* const row = x + i * n + begin;
    T sum{};
    for (int k = 0; k < count; ++k) sum = sum + row[k] * v[k];
    sum = tau * sum;
    for (int k = 0; k < count; ++k) row[k] = row[k] - sum * conjugate(v[k]);
  }
}

// Multiplies the rows from `begin` on, of columns [from, n), by its adjoint.
template <typename T>
void reflectRows(int n, int from, int begin, int count, T tau, const T* v, T* x) {
  T sums[kMost];
  T* const rows = x + begin * n;
  for (int j = from; j < n; ++j) sums[j] = conjugate(v[0]) * rows[j];
  for (int k = 1; k < count; ++k)
    for (int j = from; j < n; ++j) sums[j] = sums[j] + conjugate(v[k]) * rows[k * n + j];
  for (int j = from; j < n; ++j) sums[j] = conjugate(tau) * sums[j];
  for (int k = 0; k < count; ++k)
    for (int j = from; j < n; ++j) rows[k * n + j] = rows[k * n + j] - v[k] * sums[j];
}

// The reflection whose adjoint makes x zero after its first entry, which becomes the real `beta`: x becomes
// v. Returns false if there is nothing to do.
template <typename T>
bool findReflection(int count, T* x, T* tau, float* beta) {
  float below = 0;
  for (int k = 1; k < count; ++k) below = maxOf(below, sizeOf(x[k]));
  if (below == 0 && imagOf(x[0]) == 0) return false;
  const float scale = maxOf(below, sizeOf(x[0])), inverse = 1 / scale;
  float squares = 0;
  for (int k = 0; k < count; ++k) squares += squareOf(times(x[k], inverse));
  const T first = times(x[0], inverse);
  const float length = -std::copysign(std::sqrt(squares), realOf(first));
  *tau = times(fromReal<T>(length) - first, 1 / length);
  const T divisor = quotient(fromReal<T>(1), first - fromReal<T>(length));
  x[0] = fromReal<T>(1);
  for (int k = 1; k < count; ++k) x[k] = times(x[k], inverse) * divisor;
  *beta = length * scale;
  return true;
}

template <typename T>
void reduceToHessenberg(const Form<T>& f) {
  const int n = f.n;
  for (int j = 0; j + 1 < n; ++j) {
    const int count = n - j - 1;
    T v[kMost], tau;
    float beta;
    for (int k = 0; k < count; ++k) v[k] = f.at(j + 1 + k, j);
    if (!findReflection(count, v, &tau, &beta)) continue;
    for (int k = 0; k < count; ++k) f.at(j + 1 + k, j) = fromReal<T>(k == 0 ? beta : 0);
    reflectRows(n, j + 1, j + 1, count, tau, v, f.t);
    reflectColumns(n, n, j + 1, count, tau, v, f.t);
    if (f.z != nullptr) reflectColumns(n, n, j + 1, count, tau, v, f.z);
  }
}

// The first row of the block that ends with row `end`: the entry before it under the diagonal is negligible
// (Ahues and Tisseur, A new deflation criterion for the QR algorithm, 1997).
template <typename T>
int activeBegin(const Form<T>& f, int end) {
  constexpr float kUlp = std::numeric_limits<float>::epsilon();
  const float least = std::numeric_limits<float>::min() * (static_cast<float>(f.n) / kUlp);
  for (int l = end; l > 0; --l) {
    const T before = f.at(l - 1, l - 1), own = f.at(l, l);
    const float low = sizeOf(f.at(l, l - 1)), up = sizeOf(f.at(l - 1, l));
    if (low <= least) return l;
    float beside = sizeOf(before) + sizeOf(own);
    if (beside == 0) {
      if (l >= 2) beside += sizeOf(f.at(l - 1, l - 2));
      if (l + 1 < f.n) beside += sizeOf(f.at(l + 1, l));
    }
    if (low > kUlp * beside) continue;
    const float apart = sizeOf(before - own);
    const float ab = maxOf(low, up), ba = minOf(low, up);
    const float aa = maxOf(sizeOf(own), apart), bb = minOf(sizeOf(own), apart), total = aa + ab;
    if (ba * (ab / total) <= maxOf(least, kUlp * (bb * (aa / total)))) return l;
  }
  return 0;
}

// A sweep of reflections of `kWidth` rows each, the first of which takes `v` to its first entry.
template <int kWidth, typename T>
void chase(const Form<T>& f, int begin, int start, int end, T* v) {
  const int n = f.n;
  for (int k = start; k < end; ++k) {
    const int count = end - k + 1 < kWidth ? end - k + 1 : kWidth;
    if (k > start)
      for (int i = 0; i < count; ++i) v[i] = f.at(k + i, k - 1);
    T tau;
    float beta;
    if (!findReflection(count, v, &tau, &beta)) continue;
    if (k > start) {
      for (int i = 0; i < count; ++i) f.at(k + i, k - 1) = fromReal<T>(i == 0 ? beta : 0);
    } else if (k > begin) {
      // What comes under this entry is negligible.
      f.at(k, k - 1) = f.at(k, k - 1) - conjugate(tau) * f.at(k, k - 1);
    }
    const int rows = (k + kWidth < end ? k + kWidth : end) + 1;
    if (count == kWidth) {  // a constant, so that the loops are unrolled
      reflectRows(n, k, k, kWidth, tau, v, f.t);
      reflectColumns(n, rows, k, kWidth, tau, v, f.t);
      if (f.z != nullptr) reflectColumns(n, n, k, kWidth, tau, v, f.z);
    } else {
      reflectRows(n, k, k, count, tau, v, f.t);
      reflectColumns(n, rows, k, count, tau, v, f.t);
      if (f.z != nullptr) reflectColumns(n, n, k, count, tau, v, f.z);
    }
  }
}

// Francis's step with both eigenvalues of the last 2 x 2 block, or twice the one nearer to the last entry.
void sweep(const Form<float>& f, int begin, int end, int sweeps) {
  float h11 = f.at(end - 1, end - 1), h21 = f.at(end, end - 1), h12 = f.at(end - 1, end),
        h22 = f.at(end, end);
  if (sweeps % kExceptionalEvery == 0) {
    const bool fromEnd = sweeps % (2 * kExceptionalEvery) == 0;
    const float size = fromEnd ? std::fabs(h21) + std::fabs(f.at(end - 1, end - 2))
                               : std::fabs(f.at(begin + 1, begin)) + std::fabs(f.at(begin + 2, begin + 1));
    h11 = h22 = kExceptionalDiagonal * size + (fromEnd ? h22 : f.at(begin, begin));
    h21 = size;
    h12 = kExceptionalAbove * size;
  }
  const float scale = std::fabs(h11) + std::fabs(h12) + std::fabs(h21) + std::fabs(h22);
  float shift = 0, turn = 0;
  if (scale > 0) {
    const float inverse = 1 / scale;
    h11 *= inverse;
    h12 *= inverse;
    h21 *= inverse;
    h22 *= inverse;
    const float mean = (h11 + h22) / 2, determinant = (h11 - mean) * (h22 - mean) - h12 * h21;
    const float root = std::sqrt(std::fabs(determinant)), upper = mean + root, lower = mean - root;
    const float nearer = std::fabs(upper - h22) <= std::fabs(lower - h22) ? upper : lower;
    shift = (determinant >= 0 ? mean : nearer) * scale;
    turn = determinant >= 0 ? root * scale : 0;
  }
  float v[3];
  int start = end - 2;
  for (;; --start) {  // the sweep may start where two entries under the diagonal are small
    const float d = f.at(start, start), low = f.at(start + 1, start), next = f.at(start + 1, start + 1);
    float total = std::fabs(d - shift) + std::fabs(turn) + std::fabs(low);
    if (total == 0) total = 1;
    const float ratio = low / total;
    v[0] = ratio * f.at(start, start + 1) + (d - shift) * ((d - shift) / total) + turn * (turn / total);
    v[1] = ratio * (d + next - 2 * shift);
    v[2] = ratio * f.at(start + 2, start + 1);
    const float largest = std::fabs(v[0]) + std::fabs(v[1]) + std::fabs(v[2]),
                inverse = largest == 0 ? 1 : 1 / largest;
    for (float& x : v) x *= inverse;
    if (start == begin) break;
    const float around = std::fabs(f.at(start - 1, start - 1)) + std::fabs(d) + std::fabs(next);
    const float coupling = std::fabs(f.at(start, start - 1)) * (std::fabs(v[1]) + std::fabs(v[2]));
    if (coupling <= std::numeric_limits<float>::epsilon() * std::fabs(v[0]) * around) break;
  }
  chase<3>(f, begin, start, end, v);
}

// The complex step with Wilkinson's shift.
void sweep(const Form<Complex>& f, int begin, int end, int sweeps) {
  const Complex h11 = f.at(end - 1, end - 1), h21 = f.at(end, end - 1), h12 = f.at(end - 1, end),
                h22 = f.at(end, end);
  Complex shift = h22;
  if (sweeps % kExceptionalEvery == 0) {
    const bool fromEnd = sweeps % (2 * kExceptionalEvery) == 0;
    const float size = kExceptionalDiagonal * sizeOf(fromEnd ? h21 : f.at(begin + 1, begin));
    shift = Complex{size, 0} + (fromEnd ? h22 : f.at(begin, begin));
  } else if (const Complex product = squareRoot(h12) * squareRoot(h21); sizeOf(product) != 0) {
    const Complex half = times(h11 - h22, 0.5f);
    const float inverse = 1 / maxOf(sizeOf(product), sizeOf(half));
    const Complex x = times(half, inverse), u = times(product, inverse);
    Complex y = squareRoot(x * x + u * u);
    if (x.re * y.re + x.im * y.im < 0) y = Complex{-y.re, -y.im};
    shift = h22 - product * quotient(u, x + y);
  }
  Complex v[2];
  int start = end - 1;
  for (;; --start) {
    const Complex d = f.at(start, start), low = f.at(start + 1, start);
    float total = sizeOf(d - shift) + sizeOf(low);
    if (total == 0) total = 1;
    v[0] = times(d - shift, 1 / total);
    v[1] = times(low, 1 / total);
    if (start == begin) break;
    const float around = sizeOf(v[0]) * (sizeOf(d) + sizeOf(f.at(start + 1, start + 1)));
    const float coupling = sizeOf(f.at(start, start - 1)) * sizeOf(v[1]);
    if (coupling <= std::numeric_limits<float>::epsilon() * around) break;
  }
  chase<2>(f, begin, start, end, v);
}

template <typename T>
bool reduceToBlocks(const Form<T>& f) {
  // The last block of a real matrix may have two rows.
  constexpr int kRows = kIsReal<T> ? 2 : 1;
  const int most = kSweepsPerRow * (f.n > 10 ? f.n : 10);
  int sweeps = 0;
  for (int end = f.n - 1; end > 0;) {
    const int begin = activeBegin(f, end);
    if (begin > 0) f.at(begin, begin - 1) = T{};
    if (begin > end - kRows) {
      end = begin - 1;
      sweeps = 0;
      continue;
    }
    if (++sweeps > most) return false;
    sweep(f, begin, end, sweeps);
  }
  return true;
}

// Makes each 2 x 2 block ((x, b), (c, x)) with b c < 0, or triangular.
void standardise(const Form<float>& f) {
  const int n = f.n;
  for (int i = 0; i + 1 < n; ++i) {
    if (f.at(i + 1, i) == 0) continue;
    const StandardBlock block = standardised(f.at(i, i), f.at(i, i + 1), f.at(i + 1, i), f.at(i + 1, i + 1));
    const auto turn = [&](float& x, float& y) {
      const float a = x, b = y;
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
void schurOf(const Form<T>& f, bool balanced) {
  const int n = f.n, count = n * n;
  const float size = scaleToOne(f);
  bool good = size != 0;
  if (good) {
    int order[kMost], first = 0, last = 0;
    float scale[kMost];
    std::fill(scale, scale + n, 1.0f);
    permute(f, order, &first, &last);
    if (balanced) balance(f, first, last, scale);
    if (f.z != nullptr) {
      std::fill(f.z, f.z + count, T{});
      for (int i = 0; i < n; ++i) f.z[order[i] * n + i] = fromReal<T>(scale[i]);
    }
    reduceToHessenberg(f);
    good = reduceToBlocks(f);
  }
  if (!good) {
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    std::fill(reinterpret_cast<float*>(f.t), reinterpret_cast<float*>(f.t) + count * kParts<T>, kNan);
    if (f.z != nullptr)
      std::fill(reinterpret_cast<float*>(f.z), reinterpret_cast<float*>(f.z) + count * kParts<T>, kNan);
    return;
  }
  if constexpr (kIsReal<T>) standardise(f);
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) f.at(i, j) = i > j + (kParts<T> == 1 ? 1 : 0) ? T{} : times(f.at(i, j), size);
}

// The matrices of one worker; null z: only T.
template <typename T>
void schurOfShare(unsigned worker, unsigned workers, unsigned n, bool balanced, unsigned matrices,
                  const T* in, T* t, T* z) {
  const unsigned elements = n * n;
  // Matrices of an odd number of words share a 64-bit word.
  const unsigned grain = elements * sizeof(T) % 8 == 0 ? 1 : 2;
  const Share share = shareOf<1>(worker, workers, (matrices + grain - 1) / grain);
  for (unsigned b = share.begin * grain; b < share.end * grain && b < matrices; ++b) {
    const unsigned begin = b * elements;
    for (unsigned i = begin; i < begin + elements; ++i) t[i] = in[i];
    schurOf(Form<T>{static_cast<int>(n), t + begin, z == nullptr ? nullptr : z + begin}, balanced);
  }
}

template <typename E>
class Schur : public poplar::MultiVertex {
 public:
  In<E> in;
  Out<E> t;
  unsigned n;
  bool balanced;
  bool compute(unsigned worker) {
    schurOfShare<Number<E>>(worker, numWorkers(), n, balanced, in.size() / (n * n), numbers(&in[0]),
                            numbers(&t[0]), nullptr);
    return true;
  }
};
template class Schur<float>;
template class Schur<unsigned long long>;

template <typename E>
class SchurVectors : public poplar::MultiVertex {
 public:
  In<E> in;
  Out<E> t, z;
  unsigned n;
  bool balanced;
  bool compute(unsigned worker) {
    schurOfShare<Number<E>>(worker, numWorkers(), n, balanced, in.size() / (n * n), numbers(&in[0]),
                            numbers(&t[0]), numbers(&z[0]));
    return true;
  }
};
template class SchurVectors<float>;
template class SchurVectors<unsigned long long>;

}  // namespace hlo
