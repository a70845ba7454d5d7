// Triangular systems and Cholesky factors of matrices, whole or in blocks. Matrices are dense and row-major.
// Rows and columns that do not depend on each other are shared by the workers; what depends is the first
// worker's.
#include <cmath>
#include <limits>

#include "complex.hpp"

namespace hlo {

// A system: op(a) X = b for the columns of b, or X op(a) = b for its rows.
struct System {
  unsigned equations, rightSides;
  bool left, transposed, isConjugate, backward, unitDiagonal;
};
// Solves for the right-hand sides of one worker, in x.
template <typename T>
void solve(const System& s, Share share, const T* a, T* x) {
  const auto factor = [&](unsigned i, unsigned k) {
    const T value = s.transposed ? a[k * s.equations + i] : a[i * s.equations + k];
    return s.isConjugate ? conjugate(value) : value;
  };
  const unsigned step = s.left ? s.rightSides : 1, side = s.left ? 1 : s.equations;
  for (unsigned done = 0; done < s.equations; ++done) {
    const unsigned i = s.backward ? s.equations - 1 - done : done, first = s.backward ? i + 1 : 0;
    for (unsigned j = share.begin; j < share.end; ++j) {
      T value = x[i * step + j * side];
      for (unsigned k = first; k < first + done; ++k)
        value = subtractProduct(value, factor(i, k), x[k * step + j * side]);
      x[i * step + j * side] = s.unitDiagonal ? value : quotient(value, factor(i, i));
    }
  }
}

// Calls f(matrix, share) for the right-hand sides that one worker solves, of those of all matrices with
// `elements` unknowns.
template <typename E, typename F>
void forSystems(const System& s, unsigned worker, unsigned workers, unsigned elements, const F& f) {
  const bool beside = s.left && s.rightSides > 1;  // unknowns of two right-hand sides
  const unsigned grain = !beside && s.equations * sizeof(E) % 8 == 0 ? 1 : 2;
  const Share share = groupsOf(worker, workers, elements / s.equations, grain);
  for (unsigned at = share.begin; at < share.end;) {
    const unsigned m = at / s.rightSides, first = m * s.rightSides;
    const unsigned end = share.end < first + s.rightSides ? share.end : first + s.rightSides;
    f(m, Share{at - first, end - first});
    at = end;
  }
}

template <typename E>
class TriangularSolve : public poplar::MultiVertex {
 public:
  In<E> a, b;
  Out<E> x;
  unsigned equations, rightSides;
  bool left, transposed, isConjugate, backward, unitDiagonal;
  bool compute(unsigned worker) {
    const System system{equations, rightSides, left, transposed, isConjugate, backward, unitDiagonal};
    const unsigned step = left ? rightSides : 1, side = left ? 1 : equations;
    forSystems<E>(system, worker, numWorkers(), x.size(), [&](unsigned m, Share share) {
      const unsigned begin = m * equations * rightSides;
      for (unsigned i = 0; i < equations; ++i)
        for (unsigned j = share.begin; j < share.end; ++j)
          x[begin + i * step + j * side] = b[begin + i * step + j * side];
      solve(system, share, numbers(&a[0]) + m * equations * equations, numbers(&x[0]) + begin);
    });
    return true;
  }
};
template class TriangularSolve<float>;
template class TriangularSolve<unsigned long long>;

template <typename E>
class TriangularSolveInPlace : public poplar::MultiVertex {
 public:
  In<E> a;
  Update<E> x;
  unsigned equations, rightSides;
  bool left, transposed, isConjugate, backward, unitDiagonal;
  bool compute(unsigned worker) {
    const System system{equations, rightSides, left, transposed, isConjugate, backward, unitDiagonal};
    forSystems<E>(system, worker, numWorkers(), x.size(), [&](unsigned m, Share share) {
      solve(system, share, numbers(&a[0]) + m * equations * equations,
            numbers(&x[0]) + m * equations * rightSides);
    });
    return true;
  }
};
template class TriangularSolveInPlace<float>;
template class TriangularSolveInPlace<unsigned long long>;

// The place of an element of a row-major matrix with so many columns. A division takes as long as many
// elements, so there is one for each worker.
struct Place {
  unsigned row, column;
  Place(unsigned at, unsigned columns) : row(at / columns), column(at % columns) {}
  void next(unsigned columns) {
    if (++column < columns) return;
    column = 0;
    ++row;
  }
};

// c -= p q, for c [rows, columns], p [rows, inner] and q [inner, columns]. p and q may lie transposed in
// memory, and be conjugated.
template <typename E>
class SubtractProduct : public poplar::MultiVertex {
 public:
  Update<E> c;
  In<E> p, q;
  unsigned rows, columns, inner;
  bool pTransposed, qTransposed, pConjugate, qConjugate;
  bool compute(unsigned worker) {
    using T = Number<E>;
    const T *left = numbers(&p[0]), *right = numbers(&q[0]);
    T* const result = numbers(&c[0]);
    const Share share = shareOf<2>(worker, numWorkers(), rows * columns);
    Place place(share.begin, columns);
    for (unsigned at = share.begin; at < share.end; ++at, place.next(columns)) {
      const unsigned i = place.row, j = place.column;
      T value = result[at];
      for (unsigned k = 0; k < inner; ++k) {
        const T x = left[pTransposed ? k * rows + i : i * inner + k];
        const T y = right[qTransposed ? j * inner + k : k * columns + j];
        value = subtractProduct(value, pConjugate ? conjugate(x) : x, qConjugate ? conjugate(y) : y);
      }
      result[at] = value;
    }
    return true;
  }
};
template class SubtractProduct<float>;
template class SubtractProduct<unsigned long long>;

// Copies a matrix [rows, columns], or its adjoint, into `to`, which has so many rows and columns.
template <typename E>
class CopyMatrix : public poplar::MultiVertex {
 public:
  In<E> from;
  Out<E> to;
  unsigned rows, columns;
  bool adjoint;
  bool compute(unsigned worker) {
    using T = Number<E>;
    const T* const in = numbers(&from[0]);
    T* const out = numbers(&to[0]);
    const Share share = shareOf<2>(worker, numWorkers(), rows * columns);
    Place place(share.begin, columns);
    for (unsigned at = share.begin; at < share.end; ++at, place.next(columns))
      out[at] = adjoint ? conjugate(in[place.column * rows + place.row]) : in[at];
    return true;
  }
};
template class CopyMatrix<float>;
template class CopyMatrix<unsigned long long>;

// Replaces the lower triangle of a [n, n] by its Cholesky factor. A pivot that is not positive makes the rest
// NaN.
template <typename T>
void factorise(T* a, unsigned n) {
  for (unsigned j = 0; j < n; ++j) {
    const float pivot = realOf(a[j * n + j]);
    T root;
    setReal(&root, pivot > 0 ? std::sqrt(pivot) : std::numeric_limits<float>::quiet_NaN());
    a[j * n + j] = root;
    for (unsigned i = j + 1; i < n; ++i) a[i * n + j] = quotient(a[i * n + j], root);
    for (unsigned i = j + 1; i < n; ++i) {
      for (unsigned k = j + 1; k <= i; ++k)
        a[i * n + k] = subtractProduct(a[i * n + k], a[i * n + j], conjugate(a[k * n + j]));
    }
  }
}

template <typename E>
class CholeskyFactor : public poplar::MultiVertex {
 public:
  Update<E> a;
  unsigned size;
  bool compute(unsigned worker) {
    if (worker == 0) factorise(numbers(&a[0]), size);
    return true;
  }
};
template class CholeskyFactor<float>;
template class CholeskyFactor<unsigned long long>;

// Whole matrices, one after another: of `in` the lower or the upper triangle, in `out` the other is zero.
// Workers take whole matrices.
template <typename E>
class Cholesky : public poplar::MultiVertex {
 public:
  In<E> in;
  Out<E> out;
  unsigned size;
  bool lower;
  bool compute(unsigned worker) {
    using T = Number<E>;
    const unsigned n = size, matrices = out.size() / (n * n);
    for (unsigned m = worker; m < matrices; m += numWorkers()) {
      const T* const from = numbers(&in[0]) + m * n * n;
      T* const a = numbers(&out[0]) + m * n * n;
      for (unsigned i = 0; i < n; ++i)
        for (unsigned j = 0; j < n; ++j) a[i * n + j] = lower ? from[i * n + j] : conjugate(from[j * n + i]);
      factorise(a, n);
      const float last = realOf(a[n * n - 1]);
      const bool failed = last != last;
      T nan, zero;
      setParts(&nan, last);
      setParts(&zero, 0);
      for (unsigned i = 0; i < n; ++i) {
        for (unsigned j = 0; j <= i; ++j) {
          const T value = failed ? nan : a[i * n + j], other = failed ? nan : zero;
          if (lower) {
            a[j * n + i] = other;
            a[i * n + j] = value;
          } else {
            a[i * n + j] = other;
            a[j * n + i] = conjugate(value);
          }
        }
      }
    }
    return true;
  }
};
template class Cholesky<float>;
template class Cholesky<unsigned long long>;

// A block of the result, from a block of the factor: NaN if the last pivot, `last`, is, and zeros in the
// other triangle. `firstRow`, `firstColumn`: where it lies in the result.
template <typename E>
class CholeskyStore : public poplar::MultiVertex {
 public:
  In<E> last, factor;
  Out<E> out;
  unsigned rows, columns, firstRow, firstColumn;
  bool lower;
  bool compute(unsigned worker) {
    using T = Number<E>;
    const T* const in = numbers(&factor[0]);
    T* const result = numbers(&out[0]);
    const float pivot = realOf(numbers(&last[0])[0]);
    const Share share = shareOf<2>(worker, numWorkers(), rows * columns);
    Place place(share.begin, columns);
    for (unsigned at = share.begin; at < share.end; ++at, place.next(columns)) {
      const unsigned i = place.row, j = place.column, row = firstRow + i, column = firstColumn + j;
      T value = lower ? in[at] : conjugate(in[j * rows + i]);
      if (lower ? column > row : row > column) setParts(&value, 0);
      if (pivot != pivot) setParts(&value, pivot);
      result[at] = value;
    }
    return true;
  }
};
template class CholeskyStore<float>;
template class CholeskyStore<unsigned long long>;

// Rows of the factor up to one of its columns, which is computed. `pivot`: the row of that column's pivot; it
// is the first of the rows if `hasPivot`.
template <typename E>
class CholeskyColumn : public poplar::MultiVertex {
 public:
  Update<E> rows;
  In<E> pivot;
  unsigned columns;
  bool hasPivot;
  bool compute(unsigned worker) {
    using T = Number<E>;
    T* const block = numbers(&rows[0]);
    const T* const first = numbers(&pivot[0]);
    const unsigned last = columns - 1, count = rows.size() / columns;
    const auto remainder = [&](const T* row) {
      T value = row[last];
      for (unsigned k = 0; k < last; ++k) value = subtractProduct(value, row[k], conjugate(first[k]));
      return value;
    };
    const float square = realOf(remainder(first));
    T root;
    setReal(&root, square > 0 ? std::sqrt(square) : std::numeric_limits<float>::quiet_NaN());
    for (unsigned i = worker; i < count; i += numWorkers()) {
      T* const row = block + i * columns;
      row[last] = i == 0 && hasPivot ? root : quotient(remainder(row), root);
    }
    return true;
  }
};
template class CholeskyColumn<float>;
template class CholeskyColumn<unsigned long long>;

// A block of the other triangle.
template <typename E>
class CholeskyZero : public poplar::MultiVertex {
 public:
  In<E> last;
  Out<E> out;
  bool compute(unsigned worker) {
    using T = Number<E>;
    const float pivot = realOf(numbers(&last[0])[0]);
    T value;
    setParts(&value, pivot != pivot ? pivot : 0);
    const Share share = shareOf<2>(worker, numWorkers(), out.size());
    for (unsigned at = share.begin; at < share.end; ++at) numbers(&out[0])[at] = value;
    return true;
  }
};
template class CholeskyZero<float>;
template class CholeskyZero<unsigned long long>;

}  // namespace hlo
