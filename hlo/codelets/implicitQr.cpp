// The implicit QR algorithm for symmetric tridiagonal matrices, and for the singular values of upper
// bidiagonal ones. Workers share the columns that the rotations turn; each repeats the few operations of
// every rotation.
#include <cmath>
#include <limits>

#include "rows.hpp"

namespace hlo {

// The limit of LAPACK, per row of the matrix, over all sweeps; a few are usual.
constexpr unsigned kMaxSweepsPerRow = 30;
constexpr float kEps = std::numeric_limits<float>::epsilon() / 2, kLeast = std::numeric_limits<float>::min();

inline float smaller(float a, float b) { return b < a ? b : a; }
inline float larger(float a, float b) { return a < b ? b : a; }

// (c, s; -s, c) (f, g) = (r, 0).
struct Rotation {
  float c, s, r;
};
inline Rotation rotationOf(float f, float g) {
  const float squares = f * f + g * g;
  if (squares > 1e-30f && squares < 1e30f) {
    const float r = std::copysign(std::sqrt(squares), f);
    return {f / r, g / r, r};
  }
  if (g == 0) return {1, 0, f};
  if (f == 0) return {0, 1, g};
  // Squares would overflow or underflow.
  const float scale = larger(std::fabs(f), std::fabs(g));
  const float x = f / scale, y = g / scale, r = std::copysign(std::sqrt(x * x + y * y), f);
  return {x / r, y / r, r * scale};
}

// The columns of a worker in a row-major matrix; there may be none.
struct Turned {
  float* data;
  unsigned columns;
  Share share;
  void turn(unsigned first, unsigned second, float c, float s) const {
    if (s == 0 && c == 1) return;
    for (unsigned j = share.begin; j < share.end; ++j) {
      float &x = data[first * columns + j], &y = data[second * columns + j];
      const float a = x, b = y;
      x = c * a + s * b;
      y = c * b - s * a;
    }
  }
  void negate(unsigned row) const {
    for (unsigned j = share.begin; j < share.end; ++j) data[row * columns + j] = -data[row * columns + j];
  }
  void fill(unsigned rows, float value) const {
    for (unsigned i = 0; i < rows; ++i)
      for (unsigned j = share.begin; j < share.end; ++j) data[i * columns + j] = value;
  }
};

// The entries [begin, end] of a matrix, counted from the start or from the end.
struct Entries {
  float *diagonal, *beside;
  unsigned begin, end;
  bool reversed;
  unsigned row(unsigned i) const { return reversed ? end - i : begin + i; }
  float& d(unsigned i) const { return diagonal[row(i)]; }
  float& e(unsigned i) const { return beside[reversed ? end - i - 1 : begin + i]; }
  unsigned last() const { return end - begin; }
};

// One sweep with Wilkinson's shift.
inline void sweepTridiagonal(const Entries& m, const Turned& rows) {
  const unsigned last = m.last();
  const float half = (m.d(last - 1) - m.d(last)) / 2, low = m.e(last - 1);
  const float root = std::copysign(std::hypot(half, low), half);
  float x = m.d(0) - (m.d(last) - low * (low / (half + root))), z = m.e(0);
  // Entries of the rows k and k + 1, as the rotations before left them.
  float d = m.d(0), e = m.e(0);
  for (unsigned k = 0; k < last; ++k) {
    const Rotation g = rotationOf(x, z);
    if (k > 0) m.e(k - 1) = g.r;
    const float next = m.d(k + 1), t = (next - d) * g.s + 2 * g.c * e, change = g.s * t;
    m.d(k) = d + change;
    d = next - change;
    x = g.c * t - e;
    if (k + 1 < last) {
      const float beside = m.e(k + 1);
      z = g.s * beside;
      e = beside * g.c;
    }
    rows.turn(m.row(k), m.row(k + 1), g.c, g.s);
  }
  m.d(last) = d;
  m.e(last - 1) = x;
}

// d [n] becomes the eigenvalues; e [n - 1] is destroyed. Returns false if it does not converge.
inline bool diagonaliseTridiagonal(unsigned n, float* d, float* e, const Turned& rows) {
  unsigned sweeps = 0;
  for (unsigned end = n - 1; end > 0;) {
    const auto negligible = [&](unsigned i) {
      const float size = std::fabs(e[i]);
      return size <= kLeast || size <= kEps * std::sqrt(std::fabs(d[i])) * std::sqrt(std::fabs(d[i + 1]));
    };
    unsigned begin = end;
    while (begin > 0 && !negligible(begin - 1)) --begin;
    if (begin > 0) e[begin - 1] = 0;
    if (begin == end) {
      --end;
      continue;
    }
    if (++sweeps > kMaxSweepsPerRow * n) return false;
    // Chase the bulge towards the end with the smaller entries.
    sweepTridiagonal({d, e, begin, end, std::fabs(d[end]) > std::fabs(d[begin])}, rows);
  }
  return true;
}

// The smaller singular value of ((f, g), (0, h)), to full relative accuracy.
inline float smallerSingularValue(float f, float g, float h) {
  f = std::fabs(f);
  g = std::fabs(g);
  h = std::fabs(h);
  const float low = smaller(f, h), high = larger(f, h);
  if (low == 0) return 0;
  const float as = 1 + low / high, at = (high - low) / high;
  if (g < high) {
    const float au = (g / high) * (g / high);
    return low * (2 / (std::sqrt(as * as + au) + std::sqrt(at * at + au)));
  }
  const float au = high / g;
  if (au == 0) return low * high / g;
  const float c = 1 / (std::sqrt(1 + (as * au) * (as * au)) + std::sqrt(1 + (at * au) * (at * au)));
  return 2 * (low * c) * au;
}

// One sweep of J. Demmel and W. Kahan, "Accurate singular values of bidiagonal matrices", 1990. Seen from the
// end, the matrix is its transpose, so left and right are swapped.
inline void sweepBidiagonal(const Entries& m, float shift, const Turned& left, const Turned& right) {
  const unsigned last = m.last();
  const Turned &outer = m.reversed ? left : right, &inner = m.reversed ? right : left;
  if (shift == 0) {
    float c = 1;
    Rotation old{1, 0, 0};
    for (unsigned i = 0; i < last; ++i) {
      const Rotation g = rotationOf(m.d(i) * c, m.e(i));
      if (i > 0) m.e(i - 1) = old.s * g.r;
      old = rotationOf(old.c * g.r, m.d(i + 1) * g.s);
      m.d(i) = old.r;
      c = g.c;
      outer.turn(m.row(i), m.row(i + 1), g.c, g.s);
      inner.turn(m.row(i), m.row(i + 1), old.c, old.s);
    }
    const float h = m.d(last) * c;
    m.d(last) = h * old.c;
    m.e(last - 1) = h * old.s;
    return;
  }
  // Entries of the rows i and i + 1, as the rotations before left them.
  float d = m.d(0), e = m.e(0), g = e;
  float f = (std::fabs(d) - shift) * (std::copysign(1.0f, d) + shift / d);
  for (unsigned i = 0; i < last; ++i) {
    const Rotation r = rotationOf(f, g);
    if (i > 0) m.e(i - 1) = r.r;
    const float beside = r.c * e - r.s * d, below = m.d(i + 1), next = r.c * below;
    f = r.c * d + r.s * e;
    g = r.s * below;
    const Rotation l = rotationOf(f, g);
    m.d(i) = l.r;
    f = l.c * beside + l.s * next;
    d = l.c * next - l.s * beside;
    if (i + 1 < last) {
      e = m.e(i + 1);
      g = l.s * e;
      e *= l.c;
    }
    outer.turn(m.row(i), m.row(i + 1), r.c, r.s);
    inner.turn(m.row(i), m.row(i + 1), l.c, l.s);
  }
  m.d(last) = d;
  m.e(last - 1) = f;
}

// Sets a negligible entry to zero, and returns whether there was one. `least`: a bound of the smallest
// singular value.
inline bool deflate(const Entries& m, float tolerance, float* least) {
  const unsigned last = m.last();
  if (std::fabs(m.e(last - 1)) <= tolerance * std::fabs(m.d(last))) {
    m.e(last - 1) = 0;
    return true;
  }
  float mu = std::fabs(m.d(0));
  *least = mu;
  for (unsigned i = 0; i < last; ++i) {
    if (std::fabs(m.e(i)) <= tolerance * mu) {
      m.e(i) = 0;
      return true;
    }
    mu = std::fabs(m.d(i + 1)) * (mu / (mu + std::fabs(m.e(i))));
    *least = smaller(*least, mu);
  }
  return false;
}

// d [n] becomes the singular values; e [n - 1] is destroyed. Returns false if it does not converge.
inline bool diagonaliseBidiagonal(unsigned n, float* d, float* e, const Turned& left, const Turned& right) {
  constexpr float kTolerance = 10 * kEps;  // 10 is larger than kEps^(-1 / 8)
  const auto rows = static_cast<float>(n);
  float smallest = std::fabs(d[0]), mu = smallest;
  for (unsigned i = 1; i < n && smallest > 0; ++i) {
    mu = std::fabs(d[i]) * (mu / (mu + std::fabs(e[i - 1])));
    smallest = smaller(smallest, mu);
  }
  const float threshold = larger(kTolerance * smallest / std::sqrt(rows), 6 * rows * rows * kLeast);
  unsigned sweeps = 0;
  int oldBegin = -1, oldEnd = -1;
  bool reversed = false;
  for (unsigned end = n - 1; end > 0;) {
    unsigned begin = end;
    float largest = std::fabs(d[end]);
    for (; begin > 0 && std::fabs(e[begin - 1]) > threshold; --begin)
      largest = larger(largest, larger(std::fabs(d[begin - 1]), std::fabs(e[begin - 1])));
    if (begin > 0) e[begin - 1] = 0;
    if (begin == end) {
      --end;
      continue;
    }
    if (++sweeps > kMaxSweepsPerRow * n) return false;
    // In a new block, chase the bulge towards the end with the smaller entries.
    if (static_cast<int>(begin) > oldEnd || static_cast<int>(end) < oldBegin)
      reversed = std::fabs(d[begin]) < std::fabs(d[end]);
    oldBegin = static_cast<int>(begin);
    oldEnd = static_cast<int>(end);
    const Entries m{d, e, begin, end, reversed};
    float least = 0;
    if (deflate(m, kTolerance, &least)) continue;
    float shift = 0;
    if (rows * kTolerance * (least / largest) > larger(kEps, 0.01f * kTolerance)) {
      const unsigned last = m.last();
      shift = smallerSingularValue(m.d(last - 1), m.e(last - 1), m.d(last));
      const float ratio = shift / std::fabs(m.d(0));
      if (!(ratio * ratio >= kEps)) shift = 0;
    }
    sweepBidiagonal(m, shift, left, right);
  }
  for (unsigned i = 0; i < n; ++i) {
    if (!std::signbit(d[i])) continue;
    d[i] = -d[i];
    right.negate(i);
  }
  return true;
}

template <bool kBidiagonal>
bool diagonalise(unsigned n, float* d, float* e, const Turned& left, const Turned& right) {
  return kBidiagonal ? diagonaliseBidiagonal(n, d, e, left, right) : diagonaliseTridiagonal(n, d, e, left);
}

// The diagonals of some matrices; NaN where the algorithm does not converge. `work`: n numbers.
template <bool kBidiagonal>
class ImplicitQrValues : public poplar::MultiVertex {
 public:
  In<float> d, e;
  Out<float> values;
  poplar::Vector<float> work;
  unsigned n;
  bool compute(unsigned worker) {
    if (worker != 0) return true;
    const Turned none{nullptr, 0, {0, 0}};
    for (unsigned b = 0; b < d.size() / n; ++b) {
      for (unsigned i = 0; i < n; ++i) values[b * n + i] = d[b * n + i];
      for (unsigned i = 0; i + 1 < n; ++i) work[i] = e[b * (n - 1) + i];
      if (diagonalise<kBidiagonal>(n, &values[b * n], &work[0], none, none)) continue;
      for (unsigned i = 0; i < n; ++i) values[b * n + i] = std::numeric_limits<float>::quiet_NaN();
    }
    return true;
  }
};
template class ImplicitQrValues<false>;
template class ImplicitQrValues<true>;

// The rows that the rotations turn, from the left of the matrices or from the right. `work`: 2 n numbers for
// each worker that has columns.
template <bool kBidiagonal>
class ImplicitQr : public poplar::MultiVertex {
 public:
  In<float> d, e, rows;
  Out<float> out;
  poplar::Vector<float> work;
  unsigned n, columns;
  bool right;
  bool compute(unsigned worker) {
    const unsigned workers = work.size() / (2 * n);
    if (worker >= workers) return true;
    const Share share = rowsOf<2>(worker, workers, columns, columns);
    if (share.begin == share.end) return true;
    float *const diagonal = &work[worker * 2 * n], *const beside = diagonal + n;
    for (unsigned b = 0; b < d.size() / n; ++b) {
      for (unsigned i = 0; i < n; ++i) {
        diagonal[i] = d[b * n + i];
        if (i + 1 < n) beside[i] = e[b * (n - 1) + i];
        for (unsigned j = share.begin; j < share.end; ++j)
          out[(b * n + i) * columns + j] = rows[(b * n + i) * columns + j];
      }
      const Turned turned{&out[b * n * columns], columns, share}, none{nullptr, 0, {0, 0}};
      if (!diagonalise<kBidiagonal>(n, diagonal, beside, right ? none : turned, right ? turned : none))
        turned.fill(n, std::numeric_limits<float>::quiet_NaN());
    }
    return true;
  }
};
template class ImplicitQr<false>;
template class ImplicitQr<true>;

// The whole matrices of a worker, which follow each other: their diagonals, and the rows that the rotations
// turn. `work`: n numbers for each worker.
struct WholeMatrices {
  const float *d, *e;
  float *values, *work;
  unsigned n;
};
// Those of a batch, with `columns` of each; none where `from` is null.
struct TurnedRows {
  const float* from;
  float* to;
  unsigned columns;
  Turned of(unsigned b, unsigned n) const {
    if (from == nullptr) return {nullptr, 0, {0, 0}};
    const unsigned begin = b * n * columns;
    for (unsigned i = begin; i < begin + n * columns; ++i) to[i] = from[i];
    return {to + begin, columns, {0, columns}};
  }
};
template <bool kBidiagonal>
void diagonaliseShare(unsigned worker, unsigned workers, unsigned matrices, const WholeMatrices& m,
                      const TurnedRows& left, const TurnedRows& right) {
  const unsigned n = m.n;
  const Share share = groupsOf(worker, workers, matrices, n % 2 == 0 ? 1 : 2);
  float* const beside = m.work + worker * n;
  for (unsigned b = share.begin; b < share.end; ++b) {
    float* const values = m.values + b * n;
    for (unsigned i = 0; i < n; ++i) {
      values[i] = m.d[b * n + i];
      if (i + 1 < n) beside[i] = m.e[b * (n - 1) + i];
    }
    const Turned turned = left.of(b, n), other = right.of(b, n);
    if (diagonalise<kBidiagonal>(n, values, beside, turned, other)) continue;
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    for (unsigned i = 0; i < n; ++i) values[i] = kNan;
    turned.fill(n, kNan);
    other.fill(n, kNan);
  }
}

template <bool kBidiagonal>
class ImplicitQrMatrices : public poplar::MultiVertex {
 public:
  In<float> d, e;
  Out<float> values;
  poplar::Vector<float> work;
  unsigned n;
  bool compute(unsigned worker) {
    const TurnedRows none{nullptr, nullptr, 0};
    diagonaliseShare<kBidiagonal>(worker, numWorkers(), values.size() / n,
                                  {&d[0], &e[0], &values[0], &work[0], n}, none, none);
    return true;
  }
};
template class ImplicitQrMatrices<false>;
template class ImplicitQrMatrices<true>;

class ImplicitQrMatricesRows : public poplar::MultiVertex {
 public:
  In<float> d, e, rows;
  Out<float> values, out;
  poplar::Vector<float> work;
  unsigned n, columns;
  bool compute(unsigned worker) {
    diagonaliseShare<false>(worker, numWorkers(), values.size() / n, {&d[0], &e[0], &values[0], &work[0], n},
                            {&rows[0], &out[0], columns}, {nullptr, nullptr, 0});
    return true;
  }
};

class ImplicitQrMatricesBothSides : public poplar::MultiVertex {
 public:
  In<float> d, e, rows, rightRows;
  Out<float> values, out, rightOut;
  poplar::Vector<float> work;
  unsigned n, columns, rightColumns;
  bool compute(unsigned worker) {
    diagonaliseShare<true>(worker, numWorkers(), values.size() / n, {&d[0], &e[0], &values[0], &work[0], n},
                           {&rows[0], &out[0], columns}, {&rightRows[0], &rightOut[0], rightColumns});
    return true;
  }
};

}  // namespace hlo
