// LU factorisation of the columns of a panel, each in one superstep. Blocks of rows are dense and row-major.
#include "complex.hpp"

namespace hlo {

inline float sizeOf(float x) { return std::fabs(x); }
inline float sizeOf(Complex x) { return std::fabs(x.re) + std::fabs(x.im); }

constexpr unsigned kOfferHead = 2;  // the size of the entry, the number of its row (-1: none); then the row

// Offers, of the rows from `begin` on, the first one with the largest entry in a column. NaN is never larger.
template <typename T>
void makeOffer(const T* block, unsigned rows, unsigned columns, unsigned first, unsigned begin,
               unsigned column, T* offer) {
  for (unsigned c = 0; c < kOfferHead + columns; ++c) setReal(&offer[c], c < kOfferHead ? -1.0f : 0.0f);
  if (begin >= rows || column >= columns) return;
  float size = -1;
  unsigned found = begin;
  for (unsigned i = begin; i < rows; ++i) {
    const float mine = sizeOf(block[i * columns + column]);
    if (!(mine > size)) continue;
    size = mine;
    found = i;
  }
  setReal(&offer[0], size);
  setReal(&offer[1], static_cast<float>(first + found));
  for (unsigned c = 0; c < columns; ++c) offer[kOfferHead + c] = block[found * columns + c];
}

// The row of the largest entry among the offers, as it was, and its number; null if no offer has a size.
template <typename T>
const T* chosen(const T* offers, unsigned count, unsigned columns, unsigned* number) {
  const T* best = nullptr;
  for (unsigned t = 0; t < count; ++t) {
    const T* const offer = offers + t * (kOfferHead + columns);
    if (realOf(offer[0]) >= 0 && (best == nullptr || realOf(offer[0]) > realOf(best[0]))) best = offer;
  }
  if (best == nullptr) return nullptr;
  *number = static_cast<unsigned>(realOf(best[1]));
  return best + kOfferHead;
}

template <typename E>
class LuPanelLoad : public poplar::MultiVertex {
 public:
  In<E> in;
  Out<E> block, offer;
  unsigned columns, first;
  bool compute(unsigned worker) {
    const Share share = shareOf<2>(worker, numWorkers(), block.size());
    for (unsigned i = share.begin; i < share.end; ++i) block[i] = in[i];
    if (worker == 0)
      makeOffer(numbers(&in[0]), in.size() / columns, columns, first, 0, 0, numbers(&offer[0]));
    return true;
  }
};
template class LuPanelLoad<float>;
template class LuPanelLoad<unsigned long long>;

// Swaps row `column` with the pivot's, eliminates the column below, and offers a row for the next one. The
// offer depends on all rows, so one worker does it all.
template <typename E>
class LuPanelStep : public poplar::MultiVertex {
 public:
  Update<E> block;
  In<E> offers, row;
  Out<E> offer;
  unsigned columns, first, column, tiles;
  bool compute(unsigned worker) {
    if (worker != 0) return true;
    using T = Number<E>;
    T* const a = numbers(&block[0]);
    const unsigned rows = block.size() / columns;
    unsigned pivot = column;
    const T* const old = numbers(&row[0]);
    const T* pivotRow = chosen(numbers(&offers[0]), tiles, columns, &pivot);
    if (pivotRow == nullptr) pivotRow = old;  // all are NaN
    const auto put = [&](unsigned number, const T* from) {
      if (number < first || number >= first + rows) return;
      for (unsigned c = 0; c < columns; ++c) a[(number - first) * columns + c] = from[c];
    };
    put(pivot, old);  // before `row`, which may be of this block, changes
    put(column, pivotRow);
    for (unsigned i = column + 1 > first ? column + 1 - first : 0; i < rows; ++i) {
      T* const x = a + i * columns;
      if (sizeOf(pivotRow[column]) != 0) x[column] = quotient(x[column], pivotRow[column]);
      for (unsigned c = column + 1; c < columns; ++c) x[c] = subtractProduct(x[c], x[column], pivotRow[c]);
    }
    makeOffer(a, rows, columns, first, column + 1 > first ? column + 1 - first : 0, column + 1,
              numbers(&offer[0]));
    return true;
  }
};
template class LuPanelStep<float>;
template class LuPanelStep<unsigned long long>;

template <typename E>
class LuPanelPivot : public poplar::MultiVertex {
 public:
  In<E> offers;
  Out<int> pivot;
  unsigned columns, column, tiles;
  bool compute(unsigned worker) {
    if (worker != 0) return true;
    unsigned number = column;
    chosen(numbers(&offers[0]), tiles, columns, &number);
    pivot[0] = static_cast<int>(number);
    return true;
  }
};
template class LuPanelPivot<float>;
template class LuPanelPivot<unsigned long long>;

// Whole panels, one after another; a worker has whole ones.
template <typename E>
class LuPanels : public poplar::MultiVertex {
 public:
  In<E> in;
  Out<E> factors;
  Out<int> pivots, order;
  unsigned rows, columns;
  bool compute(unsigned worker) {
    using T = Number<E>;
    const unsigned each = rows * columns, grain = rows % 2 == 0 && columns % 2 == 0 ? 1 : 2;
    const Share share = groupsOf(worker, numWorkers(), in.size() / each, grain);
    for (unsigned b = share.begin; b < share.end; ++b) {
      const T* const from = numbers(&in[0]) + b * each;
      T* const a = numbers(&factors[0]) + b * each;
      int *const swaps = &pivots[b * columns], *const places = &order[b * rows];
      for (unsigned i = 0; i < each; ++i) a[i] = from[i];
      for (unsigned i = 0; i < rows; ++i) places[i] = static_cast<int>(i);
      for (unsigned j = 0; j < columns; ++j) {
        float size = -1;
        unsigned found = j;
        for (unsigned i = j; i < rows; ++i) {
          const float mine = sizeOf(a[i * columns + j]);
          if (!(mine > size)) continue;
          size = mine;
          found = i;
        }
        swaps[j] = static_cast<int>(found);
        T* const row = a + j * columns;
        if (found != j) {
          const int place = places[j];
          places[j] = places[found];
          places[found] = place;
          for (unsigned c = 0; c < columns; ++c) {
            const T value = row[c];
            row[c] = a[found * columns + c];
            a[found * columns + c] = value;
          }
        }
        for (unsigned i = j + 1; i < rows; ++i) {
          T* const x = a + i * columns;
          if (sizeOf(row[j]) != 0) x[j] = quotient(x[j], row[j]);
          for (unsigned c = j + 1; c < columns; ++c) x[c] = subtractProduct(x[c], x[j], row[c]);
        }
      }
    }
    return true;
  }
};
template class LuPanels<float>;
template class LuPanels<unsigned long long>;

// The order of the rows after all swaps.
class LuPanelOrder : public poplar::MultiVertex {
 public:
  In<int> pivots;
  Out<int> order;
  bool compute(unsigned worker) {
    if (worker != 0) return true;
    for (unsigned i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
    for (unsigned k = 0; k < pivots.size(); ++k) {
      const int other = order[pivots[k]];
      order[pivots[k]] = order[k];
      order[k] = other;
    }
    return true;
  }
};

}  // namespace hlo
