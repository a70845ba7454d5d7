// What exchanges between IPUs cost on the links that join them in a ring.
#ifndef IPU_MODEL_OPERATIONS_COLLECTIVES_COLLECTIVES_COST_H_
#define IPU_MODEL_OPERATIONS_COLLECTIVES_COLLECTIVES_COST_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "core/replica_operation.h"

namespace ipu_model {

using ReplicaGroups = std::vector<std::vector<unsigned>>;

// The methods of GCL, by the names of its option.
enum class LinkMethod : std::uint8_t {  // written to executables: append only
  kAuto = 0,                            // the fastest
  kBroadcast,                           // everything at once
  kClockwiseRing,                       // a step for each other member, one piece to the next
  kAnticlockwiseRing,
  kBidirectionalRingPair,  // both rings, with one half each
  kMeetInMiddleRing,       // both rings, each half way
  kCount
};

// Transfers (source, destination) of one piece each, all at once, each the short way around `ring` IPUs.
struct RingLoad {
  double pieces = 0;  // over the busiest link; half pieces where both ways around are as long
  unsigned hops = 0;  // of the farthest transfer
};
RingLoad LoadOf(const std::vector<std::pair<unsigned, unsigned>>& transfers, unsigned ring);

// Every member has one piece for each other member: the same for an all-gather, others for an all-to-all and
// a reduce-scatter. An all-to-all has no ring methods: they cost what kBroadcast does.
LinkUse CollectiveUse(LinkMethod method, bool ring_possible, const ReplicaGroups& groups, unsigned ring,
                      double piece_bytes, const TargetModel& target);

// Replica r receives one piece from sources[r], if that is not negative.
LinkUse PermutationUse(const std::vector<int>& sources, unsigned ring, double piece_bytes,
                       const TargetModel& target);

// Transfers and syncs together.
std::uint64_t TotalCycles(const LinkUse& use, const TargetModel& target);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_COLLECTIVES_COLLECTIVES_COST_H_
