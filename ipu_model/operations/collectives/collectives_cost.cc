#include "operations/collectives/collectives_cost.h"

#include <algorithm>

#include "core/target/ring_links.h"
#include "core/target/target_model.h"
#include "ipu_model/Model.hpp"

namespace ipu_model {
namespace {

using Transfers = std::vector<std::pair<unsigned, unsigned>>;

// Returns the cycles of `steps` steps with this load; each transfer moves the fraction `share` of a piece.
std::uint64_t StepCycles(const RingLoad& load, double share, unsigned steps, double piece_bytes,
                         const TargetModel& target) {
  return LinkCycles(load, share * piece_bytes, target) * steps;
}

Transfers AllPairs(const ReplicaGroups& groups) {
  Transfers transfers;
  for (const std::vector<unsigned>& group : groups) {
    for (const unsigned from : group) {
      for (const unsigned to : group) {
        if (from != to) transfers.emplace_back(from, to);
      }
    }
  }
  return transfers;
}

Transfers ToNext(const ReplicaGroups& groups, bool clockwise) {
  Transfers transfers;
  for (const std::vector<unsigned>& group : groups) {
    for (std::size_t i = 0; i < group.size(); ++i) {
      const unsigned a = group[i], b = group[(i + 1) % group.size()];
      transfers.emplace_back(clockwise ? a : b, clockwise ? b : a);
    }
  }
  return transfers;
}

}  // namespace

RingLoad LoadOf(const Transfers& transfers, unsigned ring) {
  RingLinks links(ring);
  for (const auto& [from, to] : transfers) links.Add(from, to, 1);
  return links.Load();
}

std::uint64_t TotalCycles(const LinkUse& use, const TargetModel& target) {
  return use.cycles + std::uint64_t{use.syncs} * target.global_sync_cycles;
}

LinkUse CollectiveUse(LinkMethod method, bool ring_possible, const ReplicaGroups& groups, unsigned ring,
                      double piece_bytes, const TargetModel& target) {
  const std::size_t members = groups.empty() ? 1 : groups[0].size();
  if (members <= 1) return {};
  const auto others = static_cast<unsigned>(members - 1);
  const auto bytes = static_cast<std::uint64_t>(piece_bytes) * others;
  const auto use = [&](const RingLoad& load, double share, unsigned steps) {
    return LinkUse{StepCycles(load, share, steps, piece_bytes, target), bytes, steps};
  };
  if (!ring_possible) method = LinkMethod::kBroadcast;
  switch (method) {
    case LinkMethod::kBroadcast:
      return use(LoadOf(AllPairs(groups), ring), 1, 1);
    case LinkMethod::kClockwiseRing:
    case LinkMethod::kAnticlockwiseRing:
      return use(LoadOf(ToNext(groups, method == LinkMethod::kClockwiseRing), ring), 1, others);
    case LinkMethod::kBidirectionalRingPair:
    case LinkMethod::kMeetInMiddleRing: {
      Transfers both = ToNext(groups, true);
      const Transfers back = ToNext(groups, false);
      both.insert(both.end(), back.begin(), back.end());
      const RingLoad load = LoadOf(both, ring);
      return method == LinkMethod::kBidirectionalRingPair ? use(load, 0.5, others)
                                                          : use(load, 1, (others + 1) / 2);
    }
    case LinkMethod::kAuto:
    case LinkMethod::kCount:
      break;
  }
  LinkUse best;
  for (const LinkMethod each : {LinkMethod::kBroadcast, LinkMethod::kClockwiseRing,
                                LinkMethod::kBidirectionalRingPair, LinkMethod::kMeetInMiddleRing}) {
    const LinkUse candidate = CollectiveUse(each, true, groups, ring, piece_bytes, target);
    if (best.syncs == 0 || TotalCycles(candidate, target) < TotalCycles(best, target)) best = candidate;
  }
  return best;
}

LinkUse PermutationUse(const std::vector<int>& sources, unsigned ring, double piece_bytes,
                       const TargetModel& target) {
  Transfers transfers;
  for (std::size_t r = 0; r < sources.size(); ++r) {
    if (sources[r] >= 0) transfers.emplace_back(static_cast<unsigned>(sources[r]), static_cast<unsigned>(r));
  }
  return {StepCycles(LoadOf(transfers, ring), 1, 1, piece_bytes, target),
          static_cast<std::uint64_t>(piece_bytes), 1};
}

std::uint64_t LinkCopyCycles(const poplar::Target& target, unsigned from, unsigned to, unsigned ring,
                             std::uint64_t bytes) {
  if (bytes == 0) return 0;
  std::vector<int> sources(ring, -1);
  sources.at(to) = static_cast<int>(from);
  const TargetModel& model = ModelOf(target);
  return TotalCycles(PermutationUse(sources, ring, static_cast<double>(bytes), model), model);
}

}  // namespace ipu_model
