// What collectives cost on the links that join the IPUs in a ring.
#ifndef IPU_MODEL_OPERATIONS_COLLECTIVES_COLLECTIVES_COST_H_
#define IPU_MODEL_OPERATIONS_COLLECTIVES_COLLECTIVES_COST_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "core/operation/replica_operation.h"
#include "core/target/ring_links.h"

namespace ipu_model {

using ReplicaGroups = std::vector<std::vector<unsigned>>;

// The methods of GCL's collectives, named as in its `method` option.
enum class LinkMethod : std::uint8_t {  // written to executables: append only
  kAuto = 0,                            // the fastest method
  kBroadcast,                           // all transfers at once
  kClockwiseRing,  // one step per other member; each step moves one piece to the next member
  kAnticlockwiseRing,
  kBidirectionalRingPair,  // both rings, with half of every piece each
  kMeetInMiddleRing,       // both rings, each half of the way
  kCount
};

// The load of simultaneous transfers (source, destination) of one piece each, on a ring of IPUs.
RingLoad LoadOf(const std::vector<std::pair<unsigned, unsigned>>& transfers, unsigned ring);

// Returns the link use of a collective in which every member has one piece per other member. In an all-gather
// these pieces are equal; in an all-to-all and a reduce-scatter they differ. An all-to-all has no ring
// methods and always costs as much as kBroadcast.
LinkUse CollectiveUse(LinkMethod method, bool ring_possible, const ReplicaGroups& groups, unsigned ring,
                      double piece_bytes, const TargetModel& target);

// Returns the link use of a permutation: replica r receives one piece from sources[r], unless that is
// negative.
LinkUse PermutationUse(const std::vector<int>& sources, unsigned ring, double piece_bytes,
                       const TargetModel& target);

// Returns the cycles of transfers and syncs together.
std::uint64_t TotalCycles(const LinkUse& use, const TargetModel& target);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_COLLECTIVES_COLLECTIVES_COST_H_
