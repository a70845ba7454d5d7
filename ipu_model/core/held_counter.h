// Mapping::Held for many regions of one view, without memory allocation.
#ifndef IPU_MODEL_CORE_HELD_COUNTER_H_
#define IPU_MODEL_CORE_HELD_COUNTER_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "core/mapping.h"

namespace ipu_model {

// Counts distinct elements: a broadcast dimension counts once. Keeps references to the mapping and the view.
class HeldCounter {
 public:
  HeldCounter(const Mapping& mapping, const View& view);

  std::int64_t Distinct(const Box& region) const;
  std::int64_t Held(unsigned tile, const Box& region) const;
  // Appends the tiles that hold elements of the region, and how many; a tile may be there more than once.
  void Holders(const Box& region, std::vector<std::pair<unsigned, std::int64_t>>* out);

 private:
  // A view dimension, and the distance that one step along it moves in the coordinate of its group.
  struct Dim {
    int view_dim;
    std::int64_t step;
    bool reversed;
  };
  std::int64_t BeginOf(std::size_t dim, std::int64_t part) const;
  std::int64_t HeldInPart(const std::int64_t* part, const Box& region) const;
  // The elements of the region, in the coordinate of a group of partition dimensions, that a part holds.
  std::int64_t HeldInGroup(std::size_t group, const std::int64_t* part, const Box& region) const;

  const Mapping& mapping_;
  const View& view_;
  bool aligned_ = false;
  bool row_major_tiles_ = false;  // whether tile numbers count the parts in row-major order
  // By group of partition dimensions; see Aligned in core/strided_set.h.
  std::vector<int> first_dim_, first_digit_;
  std::vector<std::int64_t> coordinate_;
  std::vector<Dim> dims_;
  std::vector<std::int64_t> grains_;  // by partition dimension
  // A part of a group: its share of the tile's number, and its elements of a region.
  struct HeldPart {
    std::int64_t tiles, elements;
  };
  std::vector<HeldPart> held_;  // of the region in Holders
};

}  // namespace ipu_model

#endif  // IPU_MODEL_CORE_HELD_COUNTER_H_
