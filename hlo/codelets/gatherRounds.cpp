// A table that passes by the indices of a gather in rounds. E: an integer with the bytes of an element, S:
// the type of the indices. hlo/index/gather_rounds.cc adds the classes.
#include "common.hpp"
#include "indexed.hpp"

namespace hlo {

// Where a row is sent from. Part p of the rows begins at begins[p], and the last one ends at the last of
// them.
template <typename Numbers>
struct RowFinder {
  const Numbers& begins;
  float partsOfRow;  // parts divided by rows, for a first guess
  int wrap, limit;

  template <typename S>
  unsigned row(S index) const {
    return static_cast<unsigned>(clamped(wrapped(index, wrap), limit));
  }
  template <typename S>
  bool outside(S index) const {
    const long long row = wrapped(index, wrap);
    return row < 0 || row > limit;
  }
  unsigned part(unsigned row) const {
    const unsigned last = begins.size() - 2;
    unsigned part = static_cast<unsigned>(static_cast<float>(row) * partsOfRow);
    if (part > last) part = last;
    while (begins[part] > row) --part;
    while (begins[part + 1] <= row) ++part;
    return part;
  }
};

template <typename E>
class GatherRows : public poplar::MultiVertex {
 public:
  In<E> rows;
  Out<E> held;
  bool compute(unsigned worker) {
    const Share share = shareOf(worker, numWorkers(), held.size());
    for (unsigned i = share.begin; i < share.end; ++i) held[i] = rows[i];
    return true;
  }
};

// T: unsigned; a template, so that only who names it has it.
template <typename T>
class GatherStart : public poplar::MultiVertex {
 public:
  Out<T> trip;
  bool compute(unsigned worker) {
    for (unsigned i = 0; worker == 0 && i < trip.size(); ++i) trip[i] = 0;
    return true;
  }
};

// Orders the indices of each worker by the block that has their row. `ends` has for each worker where the
// entries of each block end; they begin where those of the block before end. Indices whose rows other shares
// look up have no entry.
template <typename S>
class GatherOrder : public poplar::MultiVertex {
 public:
  In<S> indices;
  Out<unsigned> entries, ends, next;
  poplar::Vector<unsigned> begins;
  float partsOfRow;
  int wrap, limit;
  bool drops;  // indices outside have no entry either
  unsigned blockShift, groupShift, placeBits, shares, share, steps, buckets;

  bool compute(unsigned worker) {
    const RowFinder<decltype(begins)> finder{begins, partsOfRow, wrap, limit};
    const Share own = shareOf(worker, numWorkers(), indices.size());
    const unsigned first = worker * buckets;
    for (unsigned b = 0; b < buckets; ++b) ends[first + b] = 0;
    unsigned place = 0;
    for (unsigned i = own.begin; i < own.end; ++i) {
      const int bucket = find(finder, i, &place);
      entries[i] = 0;
      if (bucket >= 0) ++ends[first + bucket];
    }
    unsigned at = own.begin;
    for (unsigned b = 0; b < buckets; ++b) {
      const unsigned count = ends[first + b];
      ends[first + b] = at;
      at += count;
    }
    for (unsigned i = own.begin; i < own.end; ++i) {
      const int bucket = find(finder, i, &place);
      if (bucket >= 0) entries[ends[first + bucket]++] = (place << placeBits) | i;
    }
    next[worker] = 0;
    return true;
  }

 private:
  // Returns the number of the block, or -1 if it is that of another share.
  int find(const RowFinder<decltype(begins)>& finder, unsigned i, unsigned* place) const {
    if (drops && finder.outside(indices[i])) return -1;
    const unsigned row = finder.row(indices[i]), part = finder.part(row), group = part >> groupShift;
    if (group % shares != share) return -1;
    const unsigned at = row - begins[part];
    *place = ((part - (group << groupShift)) << blockShift) + (at & ((1u << blockShift) - 1));
    return static_cast<int>((at >> blockShift) * steps + group / shares);
  }
};

// The next block of a part, which is zero behind the end of the part. Blocks are short: one worker copies
// them and counts them.
template <typename E>
class GatherTakeBlock : public poplar::MultiVertex {
 public:
  In<E> rows;
  Update<unsigned> trip;
  Out<E> block;
  bool compute(unsigned worker) {
    if (worker != 0) return true;
    const unsigned first = trip[0] * block.size();
    for (unsigned i = 0; i < block.size(); ++i) block[i] = first + i < rows.size() ? rows[first + i] : E{0};
    ++trip[0];
    return true;
  }
};

// Rows of `width` elements. A worker's indices are next to each other, so no two write one word.
template <typename E>
class GatherLookUpBlock : public poplar::MultiVertex {
 public:
  In<E> blocks;
  In<unsigned> entries, ends;
  Update<unsigned> next;
  Update<E> out;
  unsigned width, buckets, placeBits;
  bool compute(unsigned worker) {
    const unsigned bucket = next[worker];
    const unsigned begin = bucket == 0 ? shareOf(worker, numWorkers(), entries.size()).begin
                                       : ends[worker * buckets + bucket - 1];
    const unsigned end = ends[worker * buckets + bucket];
    for (unsigned i = begin; i < end; ++i) {
      const unsigned from = (entries[i] >> placeBits) * width,
                     to = (entries[i] & ((1u << placeBits) - 1)) * width;
      for (unsigned k = 0; k < width; ++k) out[to + k] = blocks[from + k];
    }
    next[worker] = bucket + 1;
    return true;
  }
};

// Takes each row from the results of the share that has it.
template <typename E, typename S>
class GatherPickShare : public poplar::MultiVertex {
 public:
  In<E> partial;
  In<S> indices;
  Out<E> out;
  poplar::Vector<unsigned> begins;
  float partsOfRow;
  int wrap, limit;
  unsigned width, groupShift, shares;
  bool compute(unsigned worker) {
    const RowFinder<decltype(begins)> finder{begins, partsOfRow, wrap, limit};
    const Share share = shareOf(worker, numWorkers(), indices.size());
    for (unsigned i = share.begin; i < share.end; ++i) {
      const unsigned from = (finder.part(finder.row(indices[i])) >> groupShift) % shares;
      for (unsigned k = 0; k < width; ++k) out[i * width + k] = partial[from * out.size() + i * width + k];
    }
    return true;
  }
};

}  // namespace hlo
