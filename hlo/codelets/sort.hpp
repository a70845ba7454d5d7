// Rows of dense boxes: sorting them, merging two sorted ones, and choosing their first elements;
// hlo/sort/sort.cc generates the vertex classes.
#include "rows.hpp"
#include "scalarComplex.hpp"

namespace hlo {

// In what follows, a vertex has less(a, b) and exchange(a, b) for places a and b of its elements.

template <typename V>
void reverse(V& vertex, const Row& row, unsigned begin, unsigned end) {
  for (; begin + 1 < end; ++begin, --end) vertex.exchange(row[begin], row[end - 1]);
}

// Merges the sorted elements [begin, middle) and [middle, end) of a row in place; equal elements keep their
// order. SymMerge of P.-S. Kim and A. Kutzner, "Stable Minimum Storage Merging by Symmetric Comparisons",
// 2004, with a stack of what is left to do: each entry has half the elements of the one below it.
template <typename V>
void mergeHalves(V& vertex, const Row& row, unsigned begin, unsigned middle, unsigned end) {
  struct Part {
    unsigned begin, middle, end;
  } left[32];
  unsigned parts = 0;
  while (true) {
    if (begin >= middle || middle >= end) {
      if (parts == 0) return;
      --parts;
      begin = left[parts].begin;
      middle = left[parts].middle;
      end = left[parts].end;
      continue;
    }
    const unsigned half = (begin + end) / 2, sum = half + middle;
    unsigned low = middle > half ? sum - end : begin, high = middle > half ? half : middle;
    while (low < high) {
      const unsigned k = (low + high) / 2;
      if (vertex.less(row[sum - 1 - k], row[k]))
        high = k;
      else
        low = k + 1;
    }
    // Exchange the blocks [low, middle) and [middle, sum - low).
    if (low < middle && middle < sum - low) {
      reverse(vertex, row, low, middle);
      reverse(vertex, row, middle, sum - low);
      reverse(vertex, row, low, sum - low);
    }
    left[parts++] = {half, sum - low, end};
    end = half;
    middle = low;
  }
}

// Sorts a row in place; equal elements keep their order.
template <typename V>
void sortRow(V& vertex, const Row& row, unsigned length) {
  constexpr unsigned kBlock = 8;
  for (unsigned k = 1; k < length; ++k) {
    for (unsigned at = k; at % kBlock != 0 && vertex.less(row[at], row[at - 1]); --at)
      vertex.exchange(row[at], row[at - 1]);
  }
  for (unsigned width = kBlock; width < length; width *= 2) {
    for (unsigned begin = 0; width < length - begin; begin += 2 * width) {
      const unsigned rest = length - begin;
      mergeHalves(vertex, row, begin, begin + width, rest < 2 * width ? length : begin + 2 * width);
      if (rest <= 2 * width) break;
    }
  }
}

// A vertex with sorted rows, its own and others, has ownFirst(a, b), whether its element at place a comes
// before the other at place b, move(to, from) within its own, and take(to, from) from the others.

// Makes of an own row the first `length` elements of both.
template <typename V>
void keepFirst(V& vertex, const Row& own, unsigned length, const Row& other, unsigned others) {
  unsigned low = 0, high = others < length ? others : length;  // how many to take
  while (low < high) {
    const unsigned k = (low + high) / 2;
    if (vertex.ownFirst(own[length - 1 - k], other[k]))
      high = k;
    else
      low = k + 1;
  }
  for (unsigned mine = length - low, taken = low, to = length; taken > 0;) {
    --to;
    if (mine > 0 && !vertex.ownFirst(own[mine - 1], other[taken - 1]))
      vertex.move(own[to], own[--mine]);
    else
      vertex.take(own[to], other[--taken]);
  }
}

// Makes of an own row the last `length` elements of both.
template <typename V>
void keepLast(V& vertex, const Row& own, unsigned length, const Row& other, unsigned others) {
  unsigned low = 0, high = others < length ? others : length;
  while (low < high) {
    const unsigned k = (low + high) / 2;
    if (!vertex.ownFirst(own[k], other[others - 1 - k]))
      high = k;
    else
      low = k + 1;
  }
  for (unsigned mine = low, taken = others - low, to = 0; taken < others; ++to) {
    if (mine < length && vertex.ownFirst(own[mine], other[taken]))
      vertex.move(own[to], own[mine++]);
    else
      vertex.take(own[to], other[taken++]);
  }
}

// An unsigned integer that orders as the number: an integer, or one that is held as its bits, in IEEE's total
// order. The upper `kUnused` bits of integers of less than a byte say nothing.
template <bool kFloat, unsigned kUnused, typename T>
scalar::Unsigned<T> orderOf(T number) {
  using Word = scalar::Unsigned<T>;
  constexpr auto kSign = static_cast<Word>(Word{1} << (8 * sizeof(T) - 1));
  const auto bits = static_cast<Word>(static_cast<Word>(number) << kUnused);
  if (kFloat) return static_cast<Word>(bits & kSign ? ~bits : bits | kSign);
  return std::is_signed<T>::value ? static_cast<Word>(bits ^ kSign) : bits;
}

// The first `k` elements of a row in the order of the results: the largest or smallest, of equal ones those
// with the lower positions. They are a heap in the results until sort(): parents come after their children.
template <typename T, bool kFloat, bool kLargest, unsigned kUnused>
struct Best {
  Out<T>& values;
  Out<int>& places;
  unsigned base, k;

  static bool before(T a, int placeOfA, T b, int placeOfB) {
    const auto x = orderOf<kFloat, kUnused>(a), y = orderOf<kFloat, kUnused>(b);
    if (x != y) return kLargest ? x > y : x < y;
    return placeOfA < placeOfB;
  }
  void put(unsigned at, T value, int place) {
    values[base + at] = value;
    places[base + at] = place;
  }
  void copy(unsigned to, unsigned from) { put(to, values[base + from], places[base + from]); }
  bool isBefore(unsigned at, T value, int place) const {
    return before(values[base + at], places[base + at], value, place);
  }
  // Puts an element into the first `n`, whose root is free.
  void sink(unsigned n, T value, int place) {
    unsigned at = 0;
    while (2 * at + 1 < n) {
      unsigned child = 2 * at + 1;
      if (child + 1 < n && isBefore(child, values[base + child + 1], places[base + child + 1])) ++child;
      if (isBefore(child, value, place)) break;
      copy(at, child);
      at = child;
    }
    put(at, value, place);
  }
  // Element i of the row.
  void offer(unsigned i, T value, int place) {
    if (i >= k) {
      if (!isBefore(0, value, place)) sink(k, value, place);
      return;
    }
    unsigned at = i;
    for (; at > 0 && isBefore((at - 1) / 2, value, place); at = (at - 1) / 2) copy(at, (at - 1) / 2);
    put(at, value, place);
  }
  void sort() {
    for (unsigned n = k; n-- > 1;) {
      const T value = values[base + n];
      const int place = places[base + n];
      copy(n, 0);
      sink(n, value, place);
    }
  }
};

// Positions count from `first`.
template <typename T, bool kFloat, bool kLargest, unsigned kUnused>
class TopK : public poplar::MultiVertex {
 public:
  In<T> values;
  Out<T> best;
  Out<int> places;
  unsigned length, k;
  int first;

  bool compute(unsigned worker) {
    const Share share = rowsOf(worker, numWorkers(), best.size() / k, 1);
    for (unsigned row = share.begin; row < share.end; ++row) {
      Best<T, kFloat, kLargest, kUnused> found{best, places, row * k, k};
      for (unsigned i = 0; i < length; ++i)
        found.offer(i, values[row * length + i], first + static_cast<int>(i));
      found.sort();
    }
    return true;
  }
};

// Candidates with their positions.
template <typename T, bool kFloat, bool kLargest, unsigned kUnused>
class TopKMerge : public poplar::MultiVertex {
 public:
  In<T> values;
  In<int> positions;
  Out<T> best;
  Out<int> places;
  unsigned length, k;

  bool compute(unsigned worker) {
    const Share share = rowsOf(worker, numWorkers(), best.size() / k, 1);
    for (unsigned row = share.begin; row < share.end; ++row) {
      Best<T, kFloat, kLargest, kUnused> found{best, places, row * k, k};
      for (unsigned i = 0; i < length; ++i)
        found.offer(i, values[row * length + i], positions[row * length + i]);
      found.sort();
    }
    return true;
  }
};

}  // namespace hlo
