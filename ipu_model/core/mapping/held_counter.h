// Mapping::Held for many regions of one view, without memory allocation.
#ifndef IPU_MODEL_CORE_MAPPING_HELD_COUNTER_H_
#define IPU_MODEL_CORE_MAPPING_HELD_COUNTER_H_

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/mapping/mapping.h"
#include "core/mapping/strided_set.h"

namespace ipu_model {

// Counts distinct elements: a broadcast dimension counts once. Keeps references to the mapping and the view.
class HeldCounter {
 public:
  HeldCounter(const Mapping& mapping, const View& view);

  std::int64_t Distinct(const Box& region) const;
  // Cheapest for one tile after the other.
  std::int64_t Held(unsigned tile, const Box& region);
  // Appends the tiles that hold elements of the region, and how many; a tile may be there more than once.
  void Holders(const Box& region, std::vector<std::pair<unsigned, std::int64_t>>* out);

 private:
  // A view dimension, and the distance that one step along it moves in the coordinate of its group.
  struct Dim {
    int view_dim;
    std::int64_t step;
    bool reversed;
  };
  std::int64_t BeginOf(std::size_t dim, std::int64_t part) const {
    return begins_[first_begin_[dim] + static_cast<std::size_t>(part)];
  }
  std::int64_t PartOf(std::size_t dim, std::int64_t index) const;
  // The indices of the part of this number, in row-major order.
  const std::int64_t* PartOfNumber(std::int64_t number);
  // The numbers of the parts, a range, outside of which none holds anything of the region.
  std::pair<std::int64_t, std::int64_t> Numbers(const Box& region) const;
  std::int64_t HeldInPart(const std::int64_t* part, const Box& region) const;
  // A region in the coordinate of a group of grid dimensions: base plus the sums of the digits.
  struct Coordinates {
    std::int64_t base;
    int num_digits;
    internal::Digit digits[kMaxRank];
  };
  void Locate(std::size_t group, const Box& region, Coordinates* out) const;
  // The elements whose coordinate is in [low, high).
  std::int64_t Within(std::size_t group, const Coordinates& region, std::int64_t low,
                      std::int64_t high) const;
  // The elements of the region that a part holds.
  std::int64_t HeldInGroup(std::size_t group, const std::int64_t* part, const Coordinates& region) const;
  // The same for a group of which no dimension is divided: all.
  std::int64_t AllInGroup(std::size_t group, const Box& region) const;

  // Lists the intervals of the mapping from `begin` to `end`, and maybe more.
  void List(std::int64_t begin, std::int64_t end);

  const Mapping& mapping_;
  const View& view_;
  std::vector<MappedInterval> listed_;
  std::int64_t listed_begin_ = 0, listed_end_ = 0;
  bool aligned_ = false;
  bool row_major_tiles_ = false;  // whether tile numbers count the parts in row-major order
  // By group of grid dimensions; see Aligned in core/mapping/strided_set.h.
  std::vector<int> first_dim_, first_digit_;
  std::vector<std::int64_t> coordinate_;
  std::vector<Dim> dims_;
  std::vector<std::int64_t> grains_;  // by grid dimension
  std::vector<bool> whole_;           // by group: whether none of its dimensions is divided
  std::vector<bool> nested_;  // by group: whether each step of a digit passes all sums of those behind it
  // Grid dimensions that are divided, innermost first.
  std::vector<std::size_t> divided_;
  std::int64_t num_parts_ = 0;
  std::int64_t last_number_ = 0, last_part_[kMaxRank] = {};  // the result of PartOfNumber
  // By grid dimension, from first_begin_[dim]: where each part begins, and where the last one ends.
  std::vector<std::int64_t> begins_;
  std::vector<std::size_t> first_begin_;
  // A part of a group: its share of the tile's number, and its elements of a region.
  struct HeldPart {
    std::int64_t tiles, elements;
  };
  // Holders finds the parts of a group that hold something of a region once for all regions with the same
  // range there. They are found_[begin] to found_[end].
  struct Found {
    std::vector<std::int64_t> range;
    std::size_t begin, end;
  };
  // The parts of Holders: for a mapping of intervals, and for a grid by group.
  void HoldersOfIntervals(const Box& region, std::vector<std::pair<unsigned, std::int64_t>>* out);
  // Appends the parts of a group that hold something of the region to held_.
  void AppendHeld(std::size_t group, const Box& region);
  // Appends the products of the parts of all groups; group k's are held_[first[k]] to held_[first[k + 1]].
  void MultiplyOut(const std::size_t* first, std::vector<std::pair<unsigned, std::int64_t>>* out) const;
  // Appends those that were found to held_.
  void AppendFound(std::size_t group, const Coordinates& region, std::int64_t begin, std::int64_t end);
  void Find(std::size_t group, const Coordinates& region, std::int64_t begin, std::int64_t end);

  std::vector<HeldPart> held_;  // of the region in Holders
  std::vector<HeldPart> found_;
  std::unordered_map<std::uint64_t, Found> found_of_hash_;  // the last with the hash
  std::vector<std::int64_t> range_;
};

}  // namespace ipu_model

#endif  // IPU_MODEL_CORE_MAPPING_HELD_COUNTER_H_
