// A box of a tensor with a slice of it at run-time positions. E: an integer with the bytes of an element, S:
// the type of the starts. hlo/index/dynamic_update.cc adds the classes.
#include "common.hpp"

namespace hlo {

// The slice in the coordinates of the box, and the element of the box that a worker is at.
template <typename S, typename Starts, typename Numbers>
struct Walk {
  const Starts& starts;
  const Numbers &begin, &extent, &updated, &last;

  // The place of element `at` of the box in the update, or -1 outside of it.
  long long placeOf(unsigned at) const {
    long long place = 0, weight = 1;
    for (unsigned d = begin.size(); d-- > 0;) {
      const unsigned position = begin[d] + at % extent[d];
      at /= extent[d];
      const S start = *starts[d];
      const unsigned first = !(start > S{0}) ? 0
                             : static_cast<unsigned long long>(start) > last[d]
                                 ? last[d]
                                 : static_cast<unsigned>(start);
      if (position < first || position >= first + updated[d]) return -1;
      place += weight * (position - first);
      weight *= updated[d];
    }
    return place;
  }
};

template <typename E, typename S>
class DynamicUpdate : public poplar::MultiVertex {
 public:
  poplar::Input<poplar::Vector<E, poplar::VectorLayout::SPAN, 8>> operand, update;
  poplar::Output<poplar::Vector<E, poplar::VectorLayout::SPAN, 8>> out;
  poplar::Vector<poplar::Input<S>> starts;
  poplar::Vector<unsigned> begin, extent, updated, last;
  bool compute(unsigned worker) {
    const Walk<S, decltype(starts), decltype(begin)> walk{starts, begin, extent, updated, last};
    const Share share = shareOf(worker, numWorkers(), out.size());
    for (unsigned at = share.begin; at < share.end; ++at) {
      const long long place = walk.placeOf(at);
      out[at] = place < 0 ? operand[at] : update[place];
    }
    return true;
  }
};

template <typename E, typename S>
class DynamicUpdateInPlace : public poplar::MultiVertex {
 public:
  poplar::Input<poplar::Vector<E, poplar::VectorLayout::SPAN, 8>> update;
  poplar::InOut<poplar::Vector<E, poplar::VectorLayout::SPAN, 8>> out;
  poplar::Vector<poplar::Input<S>> starts;
  poplar::Vector<unsigned> begin, extent, updated, last;
  bool compute(unsigned worker) {
    const Walk<S, decltype(starts), decltype(begin)> walk{starts, begin, extent, updated, last};
    const Share share = shareOf(worker, numWorkers(), out.size());
    for (unsigned at = share.begin; at < share.end; ++at) {
      const long long place = walk.placeOf(at);
      if (place >= 0) out[at] = update[place];
    }
    return true;
  }
};

}  // namespace hlo
