// Reductions by Householder reflections from both sides. Blocks of columns are dense, each column contiguous;
// workers share the columns. A reflector is the column of a matrix in which it was found: its one at the
// pivot stands where the matrix has an entry.
#include "reflector.hpp"
#include "rows.hpp"

namespace hlo {

// The columns of one worker: as many as end with a 64-bit word.
template <typename E>
Share columnsOf(unsigned worker, unsigned workers, unsigned columns, unsigned n) {
  const unsigned grain = n * sizeof(E) % 8 == 0 ? 1 : 2;
  const Share share = shareOf<1>(worker, workers, (columns + grain - 1) / grain);
  const unsigned begin = share.begin * grain, end = share.end * grain;
  return {begin < columns ? begin : columns, end < columns ? end : columns};
}
// The elements of one worker in a vector, in whole 64-bit words.
template <typename E>
Share elementsOf(unsigned worker, unsigned workers, unsigned elements) {
  return shareOf<8 / sizeof(E)>(worker, workers, elements);
}

// The sum of conj(v_i) x_i, where v_0 stands for 1.
template <typename T>
T project(unsigned n, const T* v, const T* x) {
  T sum = x[0];
  for (unsigned i = 1; i < n; ++i) sum = sum + conjugate(v[i]) * x[i];
  return sum;
}

template <typename T>
void subtract(unsigned n, T factor, const T* x, T* y) {
  for (unsigned i = 0; i < n; ++i) y[i] = y[i] - factor * x[i];
}

// z - f x - g y.
template <typename T>
void subtractTwo(unsigned n, T f, const T* x, T g, const T* y, T* z) {
  for (unsigned i = 0; i < n; ++i) z[i] = z[i] - f * x[i] - g * y[i];
}

// What a vertex has to do with the columns of a worker.
template <typename E>
struct Columns {
  unsigned n, first;
  Share share;
  Number<E>* block;
  Columns(unsigned worker, unsigned workers, unsigned n, unsigned first, unsigned elements, E* block)
      : n(n), first(first), share(columnsOf<E>(worker, workers, elements / n, n)), block(numbers(block)) {}
  Number<E>* operator[](unsigned c) const { return block + c * n; }
  // The first of the worker's columns that is number `column` of the matrix or after it.
  unsigned from(unsigned column) const {
    const unsigned c = column > first ? column - first : 0;
    return c > share.begin ? c : share.begin;
  }
  // Finds the reflector of a column of the matrix, if it is the worker's.
  void find(unsigned column, unsigned pivot, E* tau) const {
    const unsigned c = column - first;
    if (c < share.begin || c >= share.end) return;
    numbers(tau)[0] = findReflector<Number<E>>((*this)[c], n, pivot);
  }
  // A - y v^H - v w with w = z - conj(tau) (v^H y) v^H in the columns from `next` on, where v has its pivot.
  // Without z, that is y^H; then y begins at row `next`, the first that is updated.
  void reflect(const E* reflector, const E* tauOf, const E* yOf, const E* zOf, unsigned next) const {
    using T = Number<E>;
    const T *const v = numbers(reflector) + next, *const y = numbers(yOf);
    const unsigned rows = zOf == nullptr ? next : 0, below = n - next;
    const T common = conjugate(numbers(tauOf)[0]) * project(below, v, y + (next - rows));
    for (unsigned c = from(next); c < share.end; ++c) {
      const unsigned place = first + c - next, own = first > next ? c : place;
      T fromRight;
      setReal(&fromRight, 1);
      if (place > 0) fromRight = conjugate(v[place]);
      const T fromLeft = (zOf == nullptr ? conjugate(y[place]) : numbers(zOf)[own]) - common * fromRight;
      T* const x = (*this)[c];
      subtract(next + 1 - rows, fromRight, y, x + rows);
      x[next] = x[next] - fromLeft;
      subtractTwo(below - 1, fromRight, y + (next + 1 - rows), fromLeft, v + 1, x + next + 1);
    }
  }
  // A - u z - y w^H in the columns from `next` on, where w has its pivot and y begins.
  void subtractBoth(const E* u, const E* z, const E* y, const E* w, unsigned next) const {
    using T = Number<E>;
    for (unsigned c = from(next); c < share.end; ++c) {
      const unsigned column = first + c, own = first > next ? c : column - next;
      T fromRight;
      setReal(&fromRight, 1);
      if (column > next) fromRight = conjugate(numbers(w)[column]);
      T* const x = (*this)[c] + next;
      subtractTwo(n - next, numbers(z)[own], numbers(u) + next, fromRight, numbers(y), x);
    }
  }
};

// Copies columns.
template <typename E>
class TwoSidedLoad : public poplar::MultiVertex {
 public:
  In<E> in;
  Out<E> block;
  bool compute(unsigned worker) {
    const Share share = elementsOf<E>(worker, numWorkers(), block.size());
    for (unsigned i = share.begin; i < share.end; ++i) block[i] = in[i];
    return true;
  }
};
template class TwoSidedLoad<float>;
template class TwoSidedLoad<unsigned long long>;

// Copies columns, and finds the reflector of the first.
template <typename E>
class TwoSidedLoadAndFind : public poplar::MultiVertex {
 public:
  In<E> in;
  Out<E> block, found;
  unsigned n, first, next, pivot;
  bool compute(unsigned worker) {
    const Columns<E> columns(worker, numWorkers(), n, first, block.size(), &block[0]);
    for (unsigned i = columns.share.begin * n; i < columns.share.end * n; ++i) block[i] = in[i];
    columns.find(next, pivot, &found[0]);
    return true;
  }
};
template class TwoSidedLoadAndFind<float>;
template class TwoSidedLoadAndFind<unsigned long long>;

// Reflects from both sides the columns from `next` on of a Hermitian matrix.
template <typename E>
class TwoSidedReflectHermitian : public poplar::MultiVertex {
 public:
  Update<E> block;
  In<E> v, tau, y;
  unsigned n, first, next, pivot;
  bool compute(unsigned worker) {
    const Columns<E> columns(worker, numWorkers(), n, first, block.size(), &block[0]);
    columns.reflect(&v[0], &tau[0], &y[0], nullptr, next);
    return true;
  }
};
template class TwoSidedReflectHermitian<float>;
template class TwoSidedReflectHermitian<unsigned long long>;

// Also finds the reflector of the next column.
template <typename E>
class TwoSidedReflectHermitianAndFind : public poplar::MultiVertex {
 public:
  Update<E> block;
  In<E> v, tau, y;
  Out<E> found;
  unsigned n, first, next, pivot;
  bool compute(unsigned worker) {
    const Columns<E> columns(worker, numWorkers(), n, first, block.size(), &block[0]);
    columns.reflect(&v[0], &tau[0], &y[0], nullptr, next);
    columns.find(next, pivot, &found[0]);
    return true;
  }
};
template class TwoSidedReflectHermitianAndFind<float>;
template class TwoSidedReflectHermitianAndFind<unsigned long long>;

// The same for any matrix.
template <typename E>
class TwoSidedReflectGeneral : public poplar::MultiVertex {
 public:
  Update<E> block;
  In<E> v, tau, z, y;
  unsigned n, first, next, pivot;
  bool compute(unsigned worker) {
    const Columns<E> columns(worker, numWorkers(), n, first, block.size(), &block[0]);
    columns.reflect(&v[0], &tau[0], &y[0], &z[0], next);
    return true;
  }
};
template class TwoSidedReflectGeneral<float>;
template class TwoSidedReflectGeneral<unsigned long long>;

// Also finds the reflector of the next column.
template <typename E>
class TwoSidedReflectGeneralAndFind : public poplar::MultiVertex {
 public:
  Update<E> block;
  In<E> v, tau, z, y;
  Out<E> found;
  unsigned n, first, next, pivot;
  bool compute(unsigned worker) {
    const Columns<E> columns(worker, numWorkers(), n, first, block.size(), &block[0]);
    columns.reflect(&v[0], &tau[0], &y[0], &z[0], next);
    columns.find(next, pivot, &found[0]);
    return true;
  }
};
template class TwoSidedReflectGeneralAndFind<float>;
template class TwoSidedReflectGeneralAndFind<unsigned long long>;

// Subtracts from the columns from `next` on what reflections from the left and from the right take away.
template <typename E>
class TwoSidedSubtract : public poplar::MultiVertex {
 public:
  Update<E> block;
  In<E> v, z, y, w;
  unsigned n, first, next, pivot;
  bool compute(unsigned worker) {
    const Columns<E> columns(worker, numWorkers(), n, first, block.size(), &block[0]);
    columns.subtractBoth(&v[0], &z[0], &y[0], &w[0], next);
    return true;
  }
};
template class TwoSidedSubtract<float>;
template class TwoSidedSubtract<unsigned long long>;

// Also finds the reflector of the next column.
template <typename E>
class TwoSidedSubtractAndFind : public poplar::MultiVertex {
 public:
  Update<E> block;
  In<E> v, z, y, w;
  Out<E> found;
  unsigned n, first, next, pivot;
  bool compute(unsigned worker) {
    const Columns<E> columns(worker, numWorkers(), n, first, block.size(), &block[0]);
    columns.subtractBoth(&v[0], &z[0], &y[0], &w[0], next);
    columns.find(next, pivot, &found[0]);
    return true;
  }
};
template class TwoSidedSubtractAndFind<float>;
template class TwoSidedSubtractAndFind<unsigned long long>;

// conj(tau) v^H of each column, or its conjugate.
template <typename E>
class TwoSidedProject : public poplar::MultiVertex {
 public:
  In<E> block, v, tau;
  Out<E> z;
  unsigned pivot;
  bool conjugates;
  bool compute(unsigned worker) {
    using T = Number<E>;
    const Share share = elementsOf<E>(worker, numWorkers(), z.size());
    const unsigned n = v.size();
    for (unsigned c = share.begin; c < share.end; ++c) {
      const T product = conjugate(numbers(&tau[0])[0]) *
                        project(n - pivot, numbers(&v[0]) + pivot, numbers(&block[0]) + c * n + pivot);
      numbers(&z[0])[c] = conjugates ? conjugate(product) : product;
    }
    return true;
  }
};
template class TwoSidedProject<float>;
template class TwoSidedProject<unsigned long long>;

// Row `row` of a block with `rows` rows, times v.
template <typename T>
T multiplyRow(const T* block, unsigned rows, unsigned row, const T* v, unsigned columns) {
  T sum = block[row];
  for (unsigned k = 1; k < columns; ++k) sum = sum + block[k * rows + row] * v[k];
  return sum;
}

// tau A v of a block of rows.
template <typename E>
class TwoSidedMultiply : public poplar::MultiVertex {
 public:
  In<E> block, v, tau;
  Out<E> y;
  bool compute(unsigned worker) {
    using T = Number<E>;
    const Share share = elementsOf<E>(worker, numWorkers(), y.size());
    for (unsigned r = share.begin; r < share.end; ++r) {
      const T product = multiplyRow(numbers(&block[0]), y.size(), r, numbers(&v[0]), v.size());
      numbers(&y[0])[r] = numbers(&tau[0])[0] * product;
    }
    return true;
  }
};
template class TwoSidedMultiply<float>;
template class TwoSidedMultiply<unsigned long long>;

// tau (A - u z) v of a block of rows.
template <typename E>
class TwoSidedMultiplyRest : public poplar::MultiVertex {
 public:
  In<E> block, v, tau, u, z;
  Out<E> y;
  bool compute(unsigned worker) {
    using T = Number<E>;
    const Share share = elementsOf<E>(worker, numWorkers(), y.size());
    const T* const from = numbers(&v[0]);
    T common = numbers(&z[0])[0];
    for (unsigned k = 1; k < z.size(); ++k) common = common + numbers(&z[0])[k] * from[k];
    for (unsigned r = share.begin; r < share.end; ++r) {
      const T product = multiplyRow(numbers(&block[0]), y.size(), r, from, v.size());
      numbers(&y[0])[r] = numbers(&tau[0])[0] * (product - numbers(&u[0])[r] * common);
    }
    return true;
  }
};
template class TwoSidedMultiplyRest<float>;
template class TwoSidedMultiplyRest<unsigned long long>;

// The reflector of a row without z, both from its pivot on.
template <typename E>
class TwoSidedFindRow : public poplar::MultiVertex {
 public:
  In<E> row, z;
  Out<E> w, tau;
  bool compute(unsigned worker) {
    using T = Number<E>;
    if (worker != 0) return true;
    const unsigned n = w.size(), pivot = n - z.size();
    T* const x = numbers(&w[0]);
    for (unsigned i = 0; i < pivot; ++i) setReal(&x[i], 0);
    for (unsigned i = pivot; i < n; ++i)
      x[i] = conjugate(numbers(&row[0])[i - pivot] - numbers(&z[0])[i - pivot]);
    numbers(&tau[0])[0] = findReflector<T>(x, n, pivot);
    return true;
  }
};
template class TwoSidedFindRow<float>;
template class TwoSidedFindRow<unsigned long long>;

// The whole matrices of a worker, which follow each other. `work`: two vectors for each worker.
template <typename T>
struct Matrices {
  unsigned n;
  Share share;
  T *z, *y;
};
template <typename E>
Matrices<Number<E>> matricesOf(unsigned worker, unsigned workers, unsigned n, unsigned elements,
                               float* work) {
  using T = Number<E>;
  T* const z = reinterpret_cast<T*>(work) + worker * 2 * n;
  // Reflectors and factors of n and n - 1 numbers: one of both is odd.
  return {n, groupsOf(worker, workers, elements / (n * n), sizeof(E) % 8 == 0 ? 1 : 2), z, z + n};
}

// z = conj(tau) v^H A, or its conjugate, of the columns from `next` on.
template <typename T>
void projectColumns(const T* a, unsigned n, unsigned next, unsigned pivot, const T* v, T tau, bool conjugates,
                    T* z) {
  for (unsigned c = next; c < n; ++c) {
    const T product = conjugate(tau) * project(n - pivot, v + pivot, a + c * n + pivot);
    z[c - next] = conjugates ? conjugate(product) : product;
  }
}

template <typename E>
class TwoSidedMatricesHermitian : public poplar::MultiVertex {
 public:
  In<E> in;
  Out<E> block, taus;
  poplar::Vector<float> work;
  unsigned n;
  bool compute(unsigned worker) {
    const auto m = matricesOf<E>(worker, numWorkers(), n, in.size(), &work[0]);
    for (unsigned b = m.share.begin; b < m.share.end; ++b) {
      E *const a = &block[b * n * n], *const tau = &taus[b * (n - 1)];
      for (unsigned i = 0; i < n * n; ++i) a[i] = in[b * n * n + i];
      const Columns<E> columns(0, 1, n, 0, n * n, a);
      for (unsigned j = 0; j + 1 < n; ++j) {
        columns.find(j, j + 1, tau + j);
        projectColumns(numbers(a), n, j + 1, j + 1, columns[j], numbers(tau)[j], true, m.y);
        columns.reflect(a + j * n, tau + j, reinterpret_cast<const E*>(m.y), nullptr, j + 1);
      }
    }
    return true;
  }
};
template class TwoSidedMatricesHermitian<float>;
template class TwoSidedMatricesHermitian<unsigned long long>;

template <typename E>
class TwoSidedMatricesGeneral : public poplar::MultiVertex {
 public:
  In<E> in;
  Out<E> block, taus;
  poplar::Vector<float> work;
  unsigned n;
  bool compute(unsigned worker) {
    using T = Number<E>;
    const auto m = matricesOf<E>(worker, numWorkers(), n, in.size(), &work[0]);
    for (unsigned b = m.share.begin; b < m.share.end; ++b) {
      E *const a = &block[b * n * n], *const tau = &taus[b * (n - 1)];
      for (unsigned i = 0; i < n * n; ++i) a[i] = in[b * n * n + i];
      const Columns<E> columns(0, 1, n, 0, n * n, a);
      for (unsigned j = 0; j + 1 < n; ++j) {
        columns.find(j, j + 1, tau + j);
        const T *const v = columns[j], *const rest = columns[j + 1];
        projectColumns(numbers(a), n, j + 1, j + 1, v, numbers(tau)[j], false, m.z);
        for (unsigned r = 0; r < n; ++r)
          m.y[r] = numbers(tau)[j] * multiplyRow(rest, n, r, v + j + 1, n - j - 1);
        columns.reflect(a + j * n, tau + j, reinterpret_cast<const E*>(m.y), reinterpret_cast<const E*>(m.z),
                        j + 1);
      }
    }
    return true;
  }
};
template class TwoSidedMatricesGeneral<float>;
template class TwoSidedMatricesGeneral<unsigned long long>;

template <typename E>
class TwoSidedMatricesBidiagonal : public poplar::MultiVertex {
 public:
  In<E> in;
  Out<E> block, taus, rows, rowTaus;
  poplar::Vector<float> work;
  unsigned n;
  bool compute(unsigned worker) {
    using T = Number<E>;
    const auto m = matricesOf<E>(worker, numWorkers(), n, in.size(), &work[0]);
    for (unsigned b = m.share.begin; b < m.share.end; ++b) {
      E *const a = &block[b * n * n], *const tau = &taus[b * n];
      for (unsigned i = 0; i < n * n; ++i) a[i] = in[b * n * n + i];
      const Columns<E> columns(0, 1, n, 0, n * n, a);
      for (unsigned j = 0; j < n; ++j) {
        columns.find(j, j, tau + j);
        const unsigned next = j + 1, length = n - next;
        if (length == 0) break;
        const T *const v = columns[j], *const rest = columns[next];
        projectColumns(numbers(a), n, next, j, v, numbers(tau)[j], false, m.z);
        E* const reflector = &rows[(b * (n - 1) + j) * n];
        T *const w = numbers(reflector), *const rowTau = numbers(&rowTaus[b * (n - 1)]) + j;
        T common;
        setReal(&common, 0);
        for (unsigned i = 0; i < next; ++i) setReal(&w[i], 0);
        for (unsigned i = 0; i < length; ++i) w[next + i] = conjugate(rest[i * n + j] - m.z[i]);
        *rowTau = findReflector<T>(w, n, next);
        for (unsigned k = 1; k < length; ++k) common = common + m.z[k] * w[next + k];
        common = common + m.z[0];
        for (unsigned r = next; r < n; ++r)
          m.y[r - next] = *rowTau * (multiplyRow(rest, n, r, w + next, length) - v[r] * common);
        columns.subtractBoth(a + j * n, reinterpret_cast<const E*>(m.z), reinterpret_cast<const E*>(m.y),
                             reflector, next);
      }
    }
    return true;
  }
};
template class TwoSidedMatricesBidiagonal<float>;
template class TwoSidedMatricesBidiagonal<unsigned long long>;

}  // namespace hlo
