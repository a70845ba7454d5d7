#include "core/target/ring_links.h"

#include <algorithm>
#include <cmath>

namespace ipu_model {

void RingLinks::Add(unsigned from, unsigned to, double pieces) {
  const unsigned forward = (to + ring_ - from) % ring_, backward = (ring_ - forward) % ring_;
  // Two IPUs have one connection, not two directions around a ring.
  const bool either = forward == backward && ring_ > 2;
  if (forward <= backward) Add(&clockwise_, from, forward, either ? pieces / 2 : pieces);
  // Over the links of `from` and of those before it.
  if (backward < forward || either)
    Add(&anticlockwise_, (from + ring_ + 1 - backward) % ring_, backward, either ? pieces / 2 : pieces);
  hops_ = std::max(hops_, std::min(forward, backward));
}

void RingLinks::Add(std::vector<double>* load, unsigned begin, unsigned links, double pieces) const {
  (*load)[begin] += pieces;
  if (begin + links <= ring_) {
    (*load)[begin + links] -= pieces;
  } else {
    (*load)[0] += pieces;
    (*load)[begin + links - ring_] -= pieces;
  }
}

RingLoad RingLinks::Load() const {
  RingLoad load;
  load.hops = hops_;
  double ahead = 0, back = 0;
  for (unsigned i = 0; i < ring_; ++i) {
    ahead += clockwise_[i];
    back += anticlockwise_[i];
    load.pieces = std::max({load.pieces, ahead, back});
  }
  return load;
}

std::uint64_t LinkCycles(const RingLoad& load, double bytes, const TargetModel& target) {
  const double rate =
      target.ipu_links_to_neighbour * target.ipu_link_bytes_per_second * target.ipu_link_efficiency;
  const double seconds = load.pieces * bytes / rate + load.hops * target.ipu_link_hop_seconds;
  return static_cast<std::uint64_t>(std::ceil(seconds * target.clock_hz));
}

std::uint64_t LinkExchangeCycles(const std::vector<std::int64_t>& bytes, unsigned ring,
                                 const TargetModel& target) {
  RingLinks links(ring);
  for (unsigned from = 0; from < ring; ++from) {
    for (unsigned to = 0; to < ring; ++to) {
      const std::int64_t sent = bytes[std::size_t{from} * ring + to];
      if (from != to && sent > 0) links.Add(from, to, static_cast<double>(sent));
    }
  }
  return LinkCycles(links.Load(), 1, target);
}

}  // namespace ipu_model
