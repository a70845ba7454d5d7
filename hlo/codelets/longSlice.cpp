// A shift of a slice by one digit of its start. `from` has, one after the other, what the elements come from
// for each value of the digit. E: an integer with the bytes of an element, S: the type of the starts.
// hlo/index/long_slice.cc adds the classes.
#include "common.hpp"

namespace hlo {

template <typename S>
unsigned clampedStart(S start, unsigned last) {
  if (!(start > S{0})) return 0;
  return static_cast<unsigned long long>(start) > last ? last : static_cast<unsigned>(start);
}

// `digit`: its dimension, weight, the weight of the digit before, and 1 if elements move to lower positions.
// `regions`: for each value of the digit, the place of its elements in `from`, and by dimension where they
// begin and how many they are.
template <typename Numbers>
struct Moved {
  const Numbers &digit, &regions, &begin, &extent;
  unsigned start;  // in the digit's dimension

  // The place in `from` of element `at` of the box, or -1 if there is none.
  long long placeOf(unsigned at) const {
    const unsigned rank = begin.size(), value = start % digit[2] / digit[1];
    const unsigned first = value * (2 * rank + 1);
    const long long shift = static_cast<long long>(value) * digit[1] * (digit[3] != 0 ? 1 : -1);
    long long place = 0, weight = 1;
    for (unsigned d = rank; d-- > 0;) {
      long long position = begin[d] + at % extent[d];
      at /= extent[d];
      if (d == digit[0]) position += shift;
      position -= regions[first + 1 + d];
      const unsigned size = regions[first + 1 + rank + d];
      if (position < 0 || position >= size) return -1;
      place += weight * position;
      weight *= size;
    }
    return place + regions[first];
  }
};

template <typename E, typename S>
class LongSliceShift : public poplar::MultiVertex {
 public:
  In<E> from;
  Out<E> out;
  poplar::Vector<poplar::Input<S>> starts;
  poplar::Vector<unsigned> digit, regions, begin, extent, last;
  bool compute(unsigned worker) {
    const Moved<decltype(digit)> moved{digit, regions, begin, extent, clampedStart<S>(*starts[0], last[0])};
    const Share share = shareOf(worker, numWorkers(), out.size());
    for (unsigned at = share.begin; at < share.end; ++at) {
      const long long place = moved.placeOf(at);
      out[at] = place < 0 ? E{0} : from[place];
    }
    return true;
  }
};

// The elements of a box that an update replaces, and what they come from.
template <typename S, typename Starts, typename Numbers>
struct Updated {
  const Starts& starts;
  const Numbers &updated, &last;
  Moved<Numbers> moved;
  Updated(const Starts& starts, const Numbers& updated, const Numbers& last, const Numbers& digit,
          const Numbers& regions, const Numbers& begin, const Numbers& extent)
      : starts(starts),
        updated(updated),
        last(last),
        moved{digit, regions, begin, extent, clampedStart<S>(*starts[digit[0]], last[digit[0]])} {}

  // The place in `from` of element `at` of the box, or -1 if it stays as it is.
  long long placeOf(unsigned at) const {
    unsigned rest = at;
    for (unsigned d = moved.begin.size(); d-- > 0;) {
      const unsigned position = moved.begin[d] + rest % moved.extent[d];
      const unsigned first = clampedStart<S>(*starts[d], last[d]);
      rest /= moved.extent[d];
      if (position < first || position - first >= updated[d]) return -1;
    }
    return moved.placeOf(at);
  }
};

template <typename E, typename S>
class LongUpdate : public poplar::MultiVertex {
 public:
  In<E> from, operand;
  Out<E> out;
  poplar::Vector<poplar::Input<S>> starts;
  poplar::Vector<unsigned> digit, regions, begin, extent, updated, last;
  bool compute(unsigned worker) {
    const Updated<S, decltype(starts), decltype(digit)> update(starts, updated, last, digit, regions, begin,
                                                               extent);
    const Share share = shareOf(worker, numWorkers(), out.size());
    for (unsigned at = share.begin; at < share.end; ++at) {
      const long long place = update.placeOf(at);
      out[at] = place < 0 ? operand[at] : from[place];
    }
    return true;
  }
};

template <typename E, typename S>
class LongUpdateInPlace : public poplar::MultiVertex {
 public:
  In<E> from;
  Update<E> out;
  poplar::Vector<poplar::Input<S>> starts;
  poplar::Vector<unsigned> digit, regions, begin, extent, updated, last;
  bool compute(unsigned worker) {
    const Updated<S, decltype(starts), decltype(digit)> update(starts, updated, last, digit, regions, begin,
                                                               extent);
    const Share share = shareOf(worker, numWorkers(), out.size());
    for (unsigned at = share.begin; at < share.end; ++at) {
      const long long place = update.placeOf(at);
      if (place >= 0) out[at] = from[place];
    }
    return true;
  }
};

}  // namespace hlo
