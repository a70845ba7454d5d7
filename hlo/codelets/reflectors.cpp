// Householder reflections 1 - tau v v^H, where v is 0 above its pivot and 1 there. Blocks of columns are
// dense and row-major; workers share the columns.
#include "reflector.hpp"
#include "rows.hpp"

namespace hlo {

// Elements of a column of m rows.
template <typename T>
struct Column {
  T* data;
  Row row;
  T& operator[](unsigned i) const { return data[row[i]]; }
};

// Applies a reflection, or its adjoint.
template <typename T>
void reflect(const Column<const T>& v, T tau, unsigned pivot, bool adjoint, const Column<T>& x, unsigned m) {
  T sum = x[pivot];
  for (unsigned i = pivot + 1; i < m; ++i) sum = sum + conjugate(v[i]) * x[i];
  sum = sum * (adjoint ? conjugate(tau) : tau);
  x[pivot] = x[pivot] - sum;
  for (unsigned i = pivot + 1; i < m; ++i) x[i] = x[i] - sum * v[i];
}

// The columns of one worker.
template <typename E>
Share columnsOf(unsigned worker, unsigned workers, unsigned columns) {
  return rowsOf<8 / sizeof(E)>(worker, workers, columns, columns);
}

// Copies columns.
template <typename E>
class QrPanelLoad : public poplar::MultiVertex {
 public:
  In<E> in;
  Out<E> block;
  bool compute(unsigned worker) {
    const Share share = shareOf<2>(worker, numWorkers(), block.size());
    for (unsigned i = share.begin; i < share.end; ++i) block[i] = in[i];
    return true;
  }
};
template class QrPanelLoad<float>;
template class QrPanelLoad<unsigned long long>;

// Copies columns, and finds the reflector of the first.
template <typename E>
class QrPanelFirst : public poplar::MultiVertex {
 public:
  In<E> in;
  Out<E> block, tau;
  unsigned columns;
  bool compute(unsigned worker) {
    using T = Number<E>;
    const Share share = columnsOf<E>(worker, numWorkers(), columns);
    const unsigned m = block.size() / columns;
    for (unsigned i = 0; i < m; ++i)
      for (unsigned c = share.begin; c < share.end; ++c) block[i * columns + c] = in[i * columns + c];
    if (share.begin == 0 && share.end > 0)
      numbers(&tau[0])[0] = findReflector<T>(Column<T>{numbers(&block[0]), Row(0, m, columns)}, m, 0);
    return true;
  }
};
template class QrPanelFirst<float>;
template class QrPanelFirst<unsigned long long>;

// Reflects the columns after `column` of the matrix, by the reflector of that one. `first`: of the block.
template <typename E>
void reflectColumns(const E* v, const E* tau, unsigned column, unsigned first, unsigned columns, unsigned m,
                    Share share, E* block) {
  using T = Number<E>;
  for (unsigned c = share.begin; c < share.end; ++c) {
    if (first + c > column)
      reflect(Column<const T>{numbers(v), Row(0, m, 1)}, numbers(tau)[0], column, true,
              Column<T>{numbers(block), Row(c, m, columns)}, m);
  }
}

template <typename E>
class QrPanelReflect : public poplar::MultiVertex {
 public:
  Update<E> block;
  In<E> v, tau;
  unsigned columns, first, column;
  bool compute(unsigned worker) {
    reflectColumns(&v[0], &tau[0], column, first, columns, v.size(),
                   columnsOf<E>(worker, numWorkers(), columns), &block[0]);
    return true;
  }
};
template class QrPanelReflect<float>;
template class QrPanelReflect<unsigned long long>;

// Also finds the reflector of the next column.
template <typename E>
class QrPanelFind : public poplar::MultiVertex {
 public:
  Update<E> block;
  In<E> v, tau;
  Out<E> next;
  unsigned columns, first, column;
  bool compute(unsigned worker) {
    using T = Number<E>;
    const Share share = columnsOf<E>(worker, numWorkers(), columns);
    const unsigned m = v.size(), own = column + 1 - first;
    reflectColumns(&v[0], &tau[0], column, first, columns, m, share, &block[0]);
    if (share.begin <= own && own < share.end)
      numbers(&next[0])[0] =
          findReflector<T>(Column<T>{numbers(&block[0]), Row(own, m, columns)}, m, column + 1);
    return true;
  }
};
template class QrPanelFind<float>;
template class QrPanelFind<unsigned long long>;

// Whole matrices, one after another; a worker factorises whole ones.
template <typename E>
class QrPanels : public poplar::MultiVertex {
 public:
  In<E> in;
  Out<E> packed, taus;
  unsigned rows, columns;
  bool compute(unsigned worker) {
    using T = Number<E>;
    const unsigned each = rows * columns, count = rows < columns ? rows : columns;
    const unsigned grain = each * sizeof(E) % 8 == 0 && count * sizeof(E) % 8 == 0 ? 1 : 2;
    const Share share = groupsOf(worker, numWorkers(), in.size() / each, grain);
    for (unsigned b = share.begin; b < share.end; ++b) {
      const T* const from = numbers(&in[0]) + b * each;
      T *const a = numbers(&packed[0]) + b * each, *const tau = numbers(&taus[0]) + b * count;
      for (unsigned i = 0; i < each; ++i) a[i] = from[i];
      for (unsigned j = 0; j < count; ++j) {
        tau[j] = findReflector<T>(Column<T>{a, Row(j, rows, columns)}, rows, j);
        for (unsigned c = j + 1; c < columns; ++c)
          reflect(Column<const T>{a, Row(j, rows, columns)}, tau[j], j, true,
                  Column<T>{a, Row(c, rows, columns)}, rows);
      }
    }
    return true;
  }
};
template class QrPanels<float>;
template class QrPanels<unsigned long long>;

// H_0 H_1 ... x for each column x of m rows; the pivot of H_j is j + below. Workers share the columns of all
// matrices.
template <typename E>
class ApplyReflectors : public poplar::MultiVertex {
 public:
  In<E> packed, taus, in;
  Out<E> out;
  unsigned m, columns, packedColumns, below;
  bool compute(unsigned worker) {
    const unsigned each = m * columns, matrices = out.size() / each, count = taus.size() / matrices;
    constexpr unsigned kWord = sizeof(E) < 8 ? 2 : 1;  // elements in 64 bits
    const unsigned grain = columns % kWord == 0 ? kWord : columns * (each % kWord == 0 ? 1 : 2);
    const Share share = groupsOf(worker, numWorkers(), matrices * columns, grain);
    for (unsigned at = share.begin; at < share.end;) {
      const unsigned b = at / columns, first = b * columns;
      const unsigned end = share.end < first + columns ? share.end : first + columns;
      apply(b, Share{at - first, end - first}, count);
      at = end;
    }
    return true;
  }

 private:
  void apply(unsigned b, Share share, unsigned count) {
    using T = Number<E>;
    const T *const q = numbers(&packed[0]) + b * m * packedColumns,
                   *const tau = numbers(&taus[0]) + b * count,
                   *const from = numbers(&in[0]) + b * m * columns;
    T* const to = numbers(&out[0]) + b * m * columns;
    for (unsigned c = share.begin; c < share.end; ++c) {
      const Row row(c, m, columns);
      for (unsigned i = 0; i < m; ++i) to[row[i]] = from[row[i]];
      for (unsigned j = count; j-- > 0;)
        reflect(Column<const T>{q, Row(j, m, packedColumns)}, tau[j], j + below, false, Column<T>{to, row},
                m);
    }
  }
};
template class ApplyReflectors<float>;
template class ApplyReflectors<unsigned long long>;

}  // namespace hlo
