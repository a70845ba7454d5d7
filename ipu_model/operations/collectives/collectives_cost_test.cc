// What collectives cost: cycles versus bytes, number of IPUs and method.
#include "operations/collectives/collectives_cost.h"

#include <cmath>
#include <numeric>
#include <tuple>
#include <vector>

#include "check.h"
#include "core/target/target_model.h"

namespace ipu_model {
namespace {

const TargetModel& Ipu2() { return FindTargetModel("ipu2"); }

ReplicaGroups All(unsigned n) {
  ReplicaGroups groups(1, std::vector<unsigned>(n));
  std::iota(groups[0].begin(), groups[0].end(), 0u);
  return groups;
}

// Cycles of one step with `pieces` pieces of this size over the busiest link, to an IPU `hops` away.
std::uint64_t Step(double pieces, double bytes, unsigned hops) {
  const TargetModel& t = Ipu2();
  const double rate = t.ipu_links_to_neighbour * t.ipu_link_bytes_per_second * t.ipu_link_efficiency;
  return static_cast<std::uint64_t>(
      std::ceil((pieces * bytes / rate + hops * t.ipu_link_hop_seconds) * t.clock_hz));
}

std::uint64_t Total(LinkMethod method, unsigned n, double bytes) {
  return TotalCycles(CollectiveUse(method, true, All(n), n, bytes, Ipu2()), Ipu2());
}

TEST(LoadsOfTheRing) {
  // Each IPU sends to the next one: every link carries one piece.
  CHECK_EQ(LoadOf({{0, 1}, {1, 2}, {2, 3}, {3, 0}}, 4).pieces, 1.0);
  CHECK_EQ(LoadOf({{0, 1}, {1, 2}, {2, 3}, {3, 0}}, 4).hops, 1u);
  // Three hops forward are one backward. Two hops are half one way and half the other way.
  CHECK_EQ(LoadOf({{0, 3}}, 4).hops, 1u);
  CHECK_EQ(LoadOf({{0, 2}}, 4).pieces, 0.5);
  CHECK_EQ(LoadOf({{0, 2}}, 4).hops, 2u);
  // Two IPUs have one connection.
  CHECK_EQ(LoadOf({{0, 1}, {1, 0}}, 2).pieces, 1.0);
  // Links carry pieces that pass through: 0 -> 2 and 1 -> 3 share the link between 1 and 2.
  CHECK_EQ(LoadOf({{0, 2}, {1, 3}}, 8).pieces, 2.0);
  CHECK_EQ(LoadOf({{5, 5}}, 8).pieces, 0.0);
  CHECK_EQ(LoadOf({}, 1).pieces, 0.0);
}

TEST(WhatIpusSendEachOtherAtOnceSharesTheLinks) {
  const auto cycles = [](unsigned ring,
                         const std::vector<std::tuple<unsigned, unsigned, std::int64_t>>& sent) {
    std::vector<std::int64_t> bytes(std::size_t{ring} * ring, 0);
    for (const auto& [from, to, n] : sent) bytes[std::size_t{from} * ring + to] += n;
    return LinkExchangeCycles(bytes, ring, Ipu2());
  };
  const std::uint64_t one = cycles(8, {{0, 1, 100000}});
  CHECK_EQ(one, TotalCycles(PermutationUse({-1, 0, -1, -1, -1, -1, -1, -1}, 8, 100000, Ipu2()), Ipu2()) -
                    Ipu2().global_sync_cycles);
  // Neighbours on both sides have links of their own, which no others use.
  CHECK_EQ(cycles(8, {{0, 1, 100000}, {1, 0, 100000}, {0, 7, 100000}, {3, 4, 100000}}), one);
  // What passes through shares them.
  CHECK(cycles(8, {{0, 2, 100000}, {1, 2, 100000}}) > 2 * one - 10);
  CHECK_EQ(cycles(8, {{5, 5, 100000}}), 0u);
}

TEST(StepsOfTheMethods) {
  const double bytes = 1e6;
  for (const unsigned n : {2u, 3u, 4u, 8u, 16u}) {
    const auto use = [&](LinkMethod method) { return CollectiveUse(method, true, All(n), n, bytes, Ipu2()); };
    const LinkUse ring = use(LinkMethod::kClockwiseRing), back = use(LinkMethod::kAnticlockwiseRing);
    CHECK_EQ(ring.syncs, n - 1);
    CHECK_EQ(ring.bytes, std::uint64_t{1000000} * (n - 1));
    CHECK_EQ(ring.cycles, Step(1, bytes, 1) * (n - 1));
    CHECK_EQ(back.cycles, ring.cycles);
    const LinkUse pair = use(LinkMethod::kBidirectionalRingPair);
    CHECK_EQ(pair.syncs, n - 1);
    // Two IPUs have one connection, which both rings use.
    CHECK_EQ(pair.cycles, n == 2 ? ring.cycles : Step(0.5, bytes, 1) * (n - 1));
    const LinkUse middle = use(LinkMethod::kMeetInMiddleRing);
    CHECK_EQ(middle.syncs, n / 2);
    CHECK_EQ(use(LinkMethod::kBroadcast).syncs, 1u);
    CHECK_EQ(use(LinkMethod::kBroadcast).bytes, ring.bytes);
  }
  // All pairs among 8 IPUs: every link carries distances 1, 2 and 3 in its direction, and half of the
  // distance 4.
  CHECK_EQ(CollectiveUse(LinkMethod::kBroadcast, true, All(8), 8, bytes, Ipu2()).cycles, Step(8, bytes, 4));
}

TEST(CyclesGrowWithBytesAndIpus) {
  for (const LinkMethod method : {LinkMethod::kAuto, LinkMethod::kBroadcast, LinkMethod::kClockwiseRing,
                                  LinkMethod::kBidirectionalRingPair, LinkMethod::kMeetInMiddleRing}) {
    std::uint64_t fewer = 0;
    for (const unsigned n : {2u, 4u, 8u, 16u}) {
      std::uint64_t smaller = 0;
      for (double bytes = 64; bytes < 1e8; bytes *= 8) {
        const std::uint64_t cycles = Total(method, n, bytes);
        CHECK(cycles > smaller);
        smaller = cycles;
      }
      // The cost of long transfers is proportional to their bytes.
      const double ratio =
          static_cast<double>(Total(method, n, 4e8)) / static_cast<double>(Total(method, n, 1e8));
      CHECK(ratio > 3.99 && ratio <= 4);
      CHECK(smaller > fewer);
      fewer = smaller;
    }
  }
}

TEST(SmallPiecesAreBroadcastAndLargeOnesGoAround) {
  const auto best = [](unsigned n, double bytes) {
    return CollectiveUse(LinkMethod::kAuto, true, All(n), n, bytes, Ipu2());
  };
  for (const unsigned n : {4u, 8u, 16u}) {
    CHECK_EQ(best(n, 64).syncs, 1u);
    CHECK_EQ(best(n, 4e6).syncs, n - 1);
    for (double bytes = 64; bytes < 1e8; bytes *= 2) {
      for (const LinkMethod method : {LinkMethod::kBroadcast, LinkMethod::kClockwiseRing,
                                      LinkMethod::kBidirectionalRingPair, LinkMethod::kMeetInMiddleRing}) {
        CHECK(Total(LinkMethod::kAuto, n, bytes) <= Total(method, n, bytes));
      }
    }
  }
}

TEST(GroupsShareTheLinks) {
  // Groups of neighbours do not share links; groups across the ring share links with each other.
  const double bytes = 1e6;
  const ReplicaGroups neighbours = {{0, 1}, {2, 3}, {4, 5}, {6, 7}},
                      across = {{0, 4}, {1, 5}, {2, 6}, {3, 7}};
  const LinkUse near = CollectiveUse(LinkMethod::kClockwiseRing, true, neighbours, 8, bytes, Ipu2());
  const LinkUse far = CollectiveUse(LinkMethod::kClockwiseRing, true, across, 8, bytes, Ipu2());
  CHECK_EQ(near.cycles, Step(1, bytes, 1));
  CHECK_EQ(far.cycles, Step(2, bytes, 4));
  // A line of neighbours is not a ring: its last member sends back over the whole line.
  const LinkUse line = CollectiveUse(LinkMethod::kClockwiseRing, true, {{0, 1, 2}}, 8, bytes, Ipu2());
  CHECK_EQ(line.cycles, 2 * Step(1, bytes, 2));
}

TEST(PermutationsAndGroupsOfOne) {
  CHECK_EQ(PermutationUse({1, 2, 3, 0}, 4, 1e6, Ipu2()).cycles, Step(1, 1e6, 1));
  CHECK_EQ(PermutationUse({-1, 0, -1, -1}, 4, 1e6, Ipu2()).bytes, std::uint64_t{1000000});
  const LinkUse alone = CollectiveUse(LinkMethod::kAuto, true, {{0}, {1}}, 2, 1e6, Ipu2());
  CHECK(alone.cycles == 0 && alone.bytes == 0 && alone.syncs == 0);
  // An all-to-all has no ring method.
  const LinkUse each = CollectiveUse(LinkMethod::kClockwiseRing, false, All(8), 8, 1e6, Ipu2());
  CHECK_EQ(each.cycles, Step(8, 1e6, 4));
}

}  // namespace
}  // namespace ipu_model
