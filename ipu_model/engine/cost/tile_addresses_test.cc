#include "engine/cost/tile_addresses.h"

#include <algorithm>
#include <random>

#include "check.h"
#include "engine/report/device_report.h"
#include "ipu_model/Profile.hpp"
#include "testing/toy_operations.h"

using namespace ipu_model;
using toy::Builder;
using toy::Expanded;

namespace {

using Bytes = std::vector<std::int64_t>;

bool LiveIn(const std::vector<std::uint32_t>& live, std::uint32_t step) {
  for (std::size_t i = 0; i + 1 < live.size(); i += 2) {
    if (live[i] <= step && step <= live[i + 1]) return true;
  }
  return false;
}

// Checks that what is live in one step does not overlap, and returns where the highest block ends.
std::int64_t CheckDisjoint(const std::vector<std::vector<std::uint32_t>>& live, const Bytes& sizes,
                           const Bytes& addresses, std::size_t num_steps, std::int64_t fixed) {
  std::int64_t highest = fixed;
  for (std::uint32_t step = 0; step < num_steps; ++step) {
    std::vector<std::pair<std::int64_t, std::int64_t>> used;
    for (std::size_t b = 0; b < sizes.size(); ++b) {
      CHECK_EQ(addresses[b] < 0, sizes[b] == 0);
      if (sizes[b] == 0 || !LiveIn(live[b], step)) continue;
      CHECK_EQ(addresses[b] % 8, 0);
      used.emplace_back(addresses[b], addresses[b] + sizes[b]);
    }
    std::sort(used.begin(), used.end());
    std::int64_t end = fixed;
    for (const auto& [first, last] : used) {
      CHECK(first >= end);
      end = last;
    }
    highest = std::max(highest, end);
  }
  return highest;
}

}  // namespace

TEST(AHoleThatIsTooSmallIsAGap) {
  // Steps 0 to 2. Above 16 bytes of code and the 8 of `always`: a (24 bytes, steps 0 and 1), then, the longer
  // life first, b (16 bytes, steps 1 and 2) on a; c (32 bytes, step 2) does not fit into the 24 bytes that a
  // has left beneath b, so it is above b: its end, 96, is 24 above the 72 bytes that are live in step 2.
  const std::vector<RunLengths> rows = {{8, 1}, {24, 1}, {16, 1}, {32, 1}};
  TileAddresses addresses({{0, {0, 2}}, {1, {0, 1}}, {2, {1, 2}}, {3, {2, 2}}}, rows, 3, 1);
  Bytes at;
  CHECK_EQ(addresses.Place(0, 16, 72, &at), 96);
  CHECK(at == (Bytes{16, 24, 48, 64}));
}

TEST(ALaterBlockFillsAHole) {
  // As before, but c has 24 bytes: above b it would end at 88, beyond the 64 bytes of the fullest moment.
  const std::vector<RunLengths> rows = {{8, 1}, {24, 1}, {16, 1}};
  TileAddresses addresses({{0, {0, 2}}, {1, {0, 1}}, {2, {1, 2}}, {1, {2, 2}}}, rows, 3, 1);
  Bytes at;
  CHECK_EQ(addresses.Place(0, 16, 64, &at), 64);
  CHECK(at == (Bytes{16, 24, 48, 24}));
}

TEST(SizesAreRoundedToEightBytes) {
  TileAddresses addresses({{0, {0, 0}}, {0, {0, 1}}}, {{3, 1}}, 2, 1);
  Bytes at;
  CHECK_EQ(addresses.Place(0, 5, 11, &at), 24);
  CHECK(at == (Bytes{16, 8}));
}

TEST(WhatIsLiveAtOnceIsApart) {
  std::mt19937 random(1);
  const auto below = [&](std::uint32_t limit) { return static_cast<std::uint32_t>(random() % limit); };
  for (int round = 0; round < 200; ++round) {
    const std::uint32_t steps = 1 + below(150), tiles = 1 + below(3), count = 1 + below(60);
    std::vector<RunLengths> rows;
    std::vector<Bytes> sizes;
    for (std::uint32_t r = 0; r < 8; ++r) {
      sizes.emplace_back();
      for (std::uint32_t t = 0; t < tiles; ++t) sizes.back().push_back(8 * below(below(4) == 0 ? 300 : 20));
      rows.push_back(RunLengthsOf(sizes.back()));
    }
    std::vector<MemoryBlock> blocks;
    std::vector<std::vector<std::uint32_t>> live;
    for (std::uint32_t b = 0; b < count; ++b) {
      std::vector<std::pair<std::uint32_t, std::uint32_t>> ranges;
      for (std::uint32_t k = 0; k < 1 + below(3); ++k) {
        const std::uint32_t first = below(steps);
        ranges.emplace_back(first, first + below(steps - first));
      }
      live.push_back(JoinedSteps(std::move(ranges)));
      blocks.push_back({below(8), live.back()});
    }
    TileAddresses addresses(blocks, rows, steps, tiles);
    for (std::uint32_t tile = 0; tile < tiles; ++tile) {
      Bytes of_block;
      for (const MemoryBlock& block : blocks) of_block.push_back(sizes[block.row][tile]);
      std::int64_t fullest = 0;
      for (std::uint32_t step = 0; step < steps; ++step) {
        std::int64_t bytes = 40;
        for (std::uint32_t b = 0; b < count; ++b) bytes += LiveIn(live[b], step) ? of_block[b] : 0;
        fullest = std::max(fullest, bytes);
      }
      Bytes at;
      const std::int64_t highest = addresses.Place(tile, 40, fullest, &at);
      const std::int64_t used = CheckDisjoint(live, of_block, at, steps, 40);
      CHECK(used >= fullest);
      CHECK_EQ(highest, used);
      CHECK_EQ(addresses.Place(tile, 40, fullest), highest);
    }
  }
}

TEST(ProfilesHaveGapsAndAddresses) {
  // x and y are state, 8 bytes on each tile; a call of the function runs its operation with one temporary.
  Builder b(2);
  const View x = b.Split("x", 4, 2),
             s = b.Add("s", {}, Mapping(std::vector<ipu_model::MappedInterval>{{0, 1, 0}}));
  const auto call = [] {
    auto node = Builder::Node(ProgramKind::kCall);
    node->function = 0;
    return node;
  };
  b.program->functions.push_back(Builder::Do(toy::Sum(x, s, 2)));
  b.Main({b.Transfer("x", x, true), call(), b.Transfer("s", s, false), call(), b.Transfer("s", s, false)});
  const Profile p = ProfileOf(poplar::Executable(b.program));
  const ProfileVariables& v = p.variables;
  const Bytes total = Expanded(p.memory.total), gaps = Expanded(p.memory.gaps),
              code = Expanded(p.memory.code), state = Expanded(p.memory.vertex_state),
              addresses_of_tile = Expanded(p.memory.addresses_of_tile);
  CHECK_EQ(gaps.size(), 2u);
  for (std::size_t tile = 0; tile < 2; ++tile) {
    const std::vector<std::int64_t>& list =
        p.memory.addresses.at(static_cast<std::size_t>(addresses_of_tile[tile]));
    Bytes at(v.name.size(), -1), sizes;
    for (std::size_t i = 0; i + 1 < list.size(); i += 2) {
      at.at(static_cast<std::size_t>(list[i])) = list[i + 1];
    }
    for (std::size_t i = 0; i < v.name.size(); ++i) sizes.push_back(Expanded(v.rows[v.row[i]])[tile]);
    const std::int64_t used =
        CheckDisjoint(v.live_steps, sizes, at, p.steps.node.size(), code[tile] + state[tile]);
    CHECK_EQ(total[tile] + gaps[tile], used);
    // Both calls use the same memory.
    std::vector<std::int64_t> temporaries;
    for (std::size_t i = 0; i < v.name.size(); ++i) {
      if (v.role[i] == "temporary" && at[i] >= 0) temporaries.push_back(at[i]);
    }
    CHECK_EQ(temporaries.size(), 2u);
    CHECK_EQ(temporaries[0], temporaries[1]);
  }
}
