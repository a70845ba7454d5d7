#include "engine/cost/tile_addresses.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace ipu_model {
namespace {

using Steps = std::vector<std::uint32_t>;

constexpr std::int64_t kUnit = 8;

std::int32_t InUnits(std::int64_t bytes) {
  const std::int64_t units = (bytes + kUnit - 1) / kUnit;
  // So much does not fit anywhere; sums of a few must not overflow.
  return static_cast<std::int32_t>(
      std::min<std::int64_t>(units, std::numeric_limits<std::int32_t>::max() / 1024));
}

// Whether both are live in some step.
bool Meet(const Steps& a, const Steps& b) {
  if (a.back() < b.front() || b.back() < a.front()) return false;
  for (std::size_t i = 0, k = 0; i < a.size() && k < b.size();) {
    if (a[i + 1] < b[k]) {
      i += 2;
    } else if (b[k + 1] < a[i]) {
      k += 2;
    } else {
      return true;
    }
  }
  return false;
}

}  // namespace

std::vector<std::uint32_t> JoinedSteps(std::vector<std::pair<std::uint32_t, std::uint32_t>> ranges) {
  std::sort(ranges.begin(), ranges.end());
  std::vector<std::uint32_t> joined;
  for (const auto& [first, last] : ranges) {
    if (!joined.empty() && first <= joined.back() + 1) {
      joined.back() = std::max(joined.back(), last);
    } else {
      joined.push_back(first);
      joined.push_back(last);
    }
  }
  return joined;
}

Skyline::Skyline(std::size_t num_steps)
    : own_(num_steps), group_(num_steps / kSteps + 1), highest_(group_.size()) {}

void Skyline::Reset(Units height) {
  for (std::vector<Units>* heights : {&own_, &group_, &highest_}) {
    std::fill(heights->begin(), heights->end(), height);
  }
}

Skyline::Units Skyline::Highest(std::uint32_t first, std::uint32_t last) const {
  Units highest = 0;
  for (std::uint32_t s = first; s <= last;) {
    const std::uint32_t group = s / kSteps, next = (group + 1) * kSteps;
    if (s == group * kSteps && next - 1 <= last) {
      highest = std::max(highest, highest_[group]);
    } else {
      highest = std::max(highest, group_[group]);
      for (const std::uint32_t end = std::min(last + 1, next); s < end; ++s) {
        highest = std::max(highest, own_[s]);
      }
    }
    s = next;
  }
  return highest;
}

void Skyline::Raise(std::uint32_t first, std::uint32_t last, Units height) {
  for (std::uint32_t s = first; s <= last;) {
    const std::uint32_t group = s / kSteps, next = (group + 1) * kSteps;
    if (s == group * kSteps && next - 1 <= last) {
      group_[group] = std::max(group_[group], height);
    } else {
      for (const std::uint32_t end = std::min(last + 1, next); s < end; ++s) {
        own_[s] = std::max(own_[s], height);
      }
    }
    highest_[group] = std::max(highest_[group], height);
    s = next;
  }
}

TileAddresses::TileAddresses(std::vector<MemoryBlock> blocks, const std::vector<RunLengths>& rows,
                             std::size_t num_steps, unsigned num_tiles)
    : blocks_(std::move(blocks)),
      num_rows_(rows.size()),
      units_(num_tiles * rows.size()),
      skyline_(num_steps) {
  std::vector<std::int64_t> most(num_rows_, 0);
  for (std::size_t row = 0; row < num_rows_; ++row) {
    std::size_t tile = 0;
    for (std::size_t i = 0; i + 1 < rows[row].size(); i += 2) {
      const Units units = InUnits(rows[row][i]);
      most[row] = std::max(most[row], rows[row][i]);
      for (std::int64_t k = 0; k < rows[row][i + 1]; ++k) units_[tile++ * num_rows_ + row] = units;
    }
  }
  std::vector<std::uint32_t> length(blocks_.size(), 0);
  for (std::uint32_t b = 0; b < blocks_.size(); ++b) {
    const Steps& live = blocks_[b].live;
    for (std::size_t i = 0; i + 1 < live.size(); i += 2) length[b] += live[i + 1] - live[i] + 1;
    (length[b] == num_steps ? always_ : order_).push_back({b, blocks_[b].row, live[0], length[b] == 1});
  }
  std::sort(order_.begin(), order_.end(), [&](const Ordered& a, const Ordered& b) {
    if (length[a.block] != length[b.block]) return length[a.block] > length[b.block];
    return most[a.row] != most[b.row] ? most[a.row] > most[b.row] : a.block < b.block;
  });
}

TileAddresses::Units TileAddresses::LowestHole(const Steps& live, Units size, Units base) {
  meeting_.clear();
  for (const Placed& other : placed_) {
    if (Meet(live, blocks_[other.block].live)) meeting_.push_back(other);
  }
  std::sort(meeting_.begin(), meeting_.end(),
            [](const Placed& a, const Placed& b) { return a.begin < b.begin; });
  for (const Placed& other : meeting_) {
    if (other.begin - base >= size) return base;
    base = std::max(base, other.end);
  }
  return base;
}

// Where the highest block ends that is live with it.
TileAddresses::Units TileAddresses::Beneath(const Steps& live) const {
  Units beneath = 0;
  for (std::size_t i = 0; i + 1 < live.size(); i += 2) {
    beneath = std::max(beneath, skyline_.Highest(live[i], live[i + 1]));
  }
  return beneath;
}

std::int64_t TileAddresses::Place(unsigned tile, std::int64_t fixed, std::int64_t fullest,
                                  std::vector<std::int64_t>* addresses) {
  if (addresses != nullptr) addresses->assign(blocks_.size(), -1);
  const auto keep = [&](std::uint32_t block, Units begin) {
    if (addresses != nullptr) (*addresses)[block] = begin * kUnit;
  };
  const Units* const units = units_.data() + tile * num_rows_;
  Units base = InUnits(fixed);
  for (const Ordered& one : always_) {
    if (units[one.row] == 0) continue;
    keep(one.block, base);
    base += units[one.row];
  }
  skyline_.Reset(base);
  placed_.clear();
  Units highest = std::max(base, InUnits(fullest));
  for (const Ordered& one : order_) {
    const Units size = units[one.row];
    if (size == 0) continue;
    const Steps& live = blocks_[one.block].live;
    Units begin = one.one_step ? skyline_.At(one.first_step) : Beneath(live);
    if (begin + size > highest) begin = LowestHole(live, size, base);
    const Units end = begin + size;
    highest = std::max(highest, end);
    if (one.one_step) {
      skyline_.RaiseStep(one.first_step, end);
    } else {
      for (std::size_t i = 0; i + 1 < live.size(); i += 2) skyline_.Raise(live[i], live[i + 1], end);
    }
    placed_.push_back({one.block, begin, end});
    keep(one.block, begin);
  }
  return highest * kUnit;
}

void AddAddresses(const std::vector<std::uint32_t>& block_of_variable, std::uint32_t num_blocks,
                  const MemoryProfile& bytes, std::size_t num_steps, Profile* profile) {
  const ProfileVariables& variables = profile->variables;
  ProfileMemory& memory = profile->memory;
  const auto num_tiles = static_cast<unsigned>(bytes.total.size());
  std::vector<std::vector<std::pair<std::uint32_t, std::uint32_t>>> live(num_blocks);
  std::vector<MemoryBlock> blocks(num_blocks);
  for (std::size_t v = 0; v < block_of_variable.size(); ++v) {
    const std::uint32_t b = block_of_variable[v];
    blocks[b].row = variables.row[v];
    const std::vector<std::uint32_t>& steps = variables.live_steps[v];
    for (std::size_t i = 0; i + 1 < steps.size(); i += 2) live[b].emplace_back(steps[i], steps[i + 1]);
  }
  for (std::size_t b = 0; b < blocks.size(); ++b) blocks[b].live = JoinedSteps(std::move(live[b]));
  TileAddresses addresses(std::move(blocks), variables.rows, num_steps, num_tiles);

  const auto fixed = [&](unsigned tile) { return bytes.code[tile] + bytes.vertex_state[tile]; };
  // Tiles with the same contents have the same addresses.
  std::vector<unsigned> like(num_tiles);
  std::unordered_map<std::string_view, unsigned> known;
  TileBytes gaps(num_tiles);
  for (unsigned tile = 0; tile < num_tiles; ++tile) {
    const unsigned other = known.try_emplace(addresses.Contents(tile), tile).first->second;
    const bool same = other != tile && fixed(tile) == fixed(other) && bytes.total[tile] == bytes.total[other];
    like[tile] = same ? other : tile;
    gaps[tile] =
        same ? gaps[other] : addresses.Place(tile, fixed(tile), bytes.total[tile]) - bytes.total[tile];
  }
  memory.gaps = RunLengthsOf(gaps);

  std::vector<unsigned> fullest_first(num_tiles);
  std::iota(fullest_first.begin(), fullest_first.end(), 0u);
  std::stable_sort(fullest_first.begin(), fullest_first.end(),
                   [&](unsigned a, unsigned b) { return bytes.total[a] > bytes.total[b]; });
  std::vector<std::int64_t> addresses_of_tile(num_tiles, -1);
  std::vector<std::int64_t> at;
  std::size_t left = Profile::kMostAddresses;
  for (const unsigned tile : fullest_first) {
    const unsigned first = like[tile];
    if (addresses_of_tile[first] < 0) {
      addresses.Place(first, fixed(first), bytes.total[first], &at);
      std::vector<std::int64_t> list;
      for (std::size_t v = 0; v < block_of_variable.size(); ++v) {
        const std::int64_t address = at[block_of_variable[v]];
        if (address < 0) continue;
        list.push_back(static_cast<std::int64_t>(v));
        list.push_back(address);
      }
      if (list.size() / 2 > left) break;
      left -= list.size() / 2;
      addresses_of_tile[first] = static_cast<std::int64_t>(memory.addresses.size());
      memory.addresses.push_back(std::move(list));
    }
    addresses_of_tile[tile] = addresses_of_tile[first];
  }
  memory.addresses_of_tile = RunLengthsOf(addresses_of_tile);
}

}  // namespace ipu_model
