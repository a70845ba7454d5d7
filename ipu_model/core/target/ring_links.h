// The IPU-Links that join IPUs in a ring: how much they carry, and how long that takes.
#ifndef IPU_MODEL_CORE_TARGET_RING_LINKS_H_
#define IPU_MODEL_CORE_TARGET_RING_LINKS_H_

#include <cstdint>
#include <vector>

#include "core/target/target_model.h"

namespace ipu_model {

// The load of simultaneous transfers, which take the shorter way around the ring.
struct RingLoad {
  double pieces = 0;  // on the busiest link; if both ways are equally short, each carries half a piece
  unsigned hops = 0;  // of the farthest transfer
};

class RingLinks {
 public:
  explicit RingLinks(unsigned ring) : ring_(ring), clockwise_(ring + 1, 0), anticlockwise_(ring + 1, 0) {}

  void Add(unsigned from, unsigned to, double pieces);
  RingLoad Load() const;

 private:
  void Add(std::vector<double>* load, unsigned begin, unsigned links, double pieces) const;

  const unsigned ring_;
  // Of the links from i to its neighbour, each as the difference to that of the link before: a transfer over
  // many links changes two of them.
  std::vector<double> clockwise_, anticlockwise_;
  unsigned hops_ = 0;
};

// Returns the cycles of transfers with this load of pieces of `bytes`, without the sync.
std::uint64_t LinkCycles(const RingLoad& load, double bytes, const TargetModel& target);
// The same of what the IPUs of a ring send each other at once: `bytes` [from, to], flat.
std::uint64_t LinkExchangeCycles(const std::vector<std::int64_t>& bytes, unsigned ring,
                                 const TargetModel& target);

}  // namespace ipu_model

#endif  // IPU_MODEL_CORE_TARGET_RING_LINKS_H_
