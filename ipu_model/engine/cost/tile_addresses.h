// Addresses on each tile for what takes memory while the main program runs.
#ifndef IPU_MODEL_ENGINE_COST_TILE_ADDRESSES_H_
#define IPU_MODEL_ENGINE_COST_TILE_ADDRESSES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/cost/tile_memory.h"
#include "engine/program/run_lengths.h"

namespace ipu_model {

// Something with one address on each tile: a variable, a temporary, an exchange buffer.
struct MemoryBlock {
  std::uint32_t row = 0;  // its bytes by tile: index into the rows
  // The steps in which it is live, at least one: first, last, first, last, ... inclusive, in rising order.
  std::vector<std::uint32_t> live;
};

// How high memory is filled in each step.
class Skyline {
 public:
  using Units = std::int32_t;  // 8 bytes
  explicit Skyline(std::size_t num_steps);
  void Reset(Units height);
  Units At(std::uint32_t step) const { return std::max(own_[step], group_[step / kSteps]); }
  Units Highest(std::uint32_t first, std::uint32_t last) const;       // inclusive
  void Raise(std::uint32_t first, std::uint32_t last, Units height);  // to at least that
  void RaiseStep(std::uint32_t step, Units height) {
    own_[step] = std::max(own_[step], height);
    highest_[step / kSteps] = std::max(highest_[step / kSteps], height);
  }

 private:
  static constexpr std::uint32_t kSteps = 32;
  // The height of a step is the maximum of its own and of that of its group of kSteps, which lives that
  // contain the whole group raise.
  std::vector<Units> own_, group_, highest_;
};

// Places blocks as a compiler that lays out memory statically does: blocks that are live in the same step do
// not overlap, addresses are multiples of 8, and what is live in all steps comes first. The others follow in
// falling order of the length of their life, then of their size. Each is put above all that is live with it
// if that is within the bytes of the tile's fullest moment, otherwise into the lowest hole that is large
// enough. Public sources do not describe Poplar's allocator; it has the same task.
class TileAddresses {
 public:
  TileAddresses(std::vector<MemoryBlock> blocks, const std::vector<RunLengths>& rows, std::size_t num_steps,
                unsigned num_tiles);

  // Places the blocks of a tile above the first `fixed` bytes, which are code and vertex state, and returns
  // where the highest of them ends, at least `fullest`: the bytes of the tile's fullest moment. `addresses`,
  // if not null, gets the address of each block, or -1 if it has no part on the tile.
  std::int64_t Place(unsigned tile, std::int64_t fixed, std::int64_t fullest,
                     std::vector<std::int64_t>* addresses = nullptr);

  // Equal for tiles whose blocks have the same sizes.
  std::string_view Contents(unsigned tile) const {
    return {reinterpret_cast<const char*>(units_.data() + tile * num_rows_), num_rows_ * sizeof(Units)};
  }

 private:
  using Units = Skyline::Units;
  struct Placed {
    std::uint32_t block;
    Units begin, end;
  };
  Units Beneath(const std::vector<std::uint32_t>& live) const;
  Units LowestHole(const std::vector<std::uint32_t>& live, Units size, Units base);

  std::vector<MemoryBlock> blocks_;
  const std::size_t num_rows_;
  std::vector<Units> units_;  // by tile, then by row
  // What is live in all steps, and the others in the order in which they are placed.
  struct Ordered {
    std::uint32_t block, row, first_step;
    bool one_step;  // whether it is live in no other
  };
  std::vector<Ordered> always_, order_;
  // Of the tile that is being placed.
  Skyline skyline_;
  std::vector<Placed> placed_, meeting_;
};

// Sorts ranges of steps and joins those that touch: first, last, first, last, ... inclusive.
std::vector<std::uint32_t> JoinedSteps(std::vector<std::pair<std::uint32_t, std::uint32_t>> ranges);

// Fills in the gaps and the addresses of a profile that has its variables and their rows.
// `block_of_variable`: variables of one block share addresses; `bytes`: what the tiles hold.
void AddAddresses(const std::vector<std::uint32_t>& block_of_variable, std::uint32_t num_blocks,
                  const MemoryProfile& bytes, std::size_t num_steps, Profile* profile);

}  // namespace ipu_model

#endif  // IPU_MODEL_ENGINE_COST_TILE_ADDRESSES_H_
