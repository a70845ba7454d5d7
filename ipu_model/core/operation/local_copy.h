// Copies within a tile, as Poplar's on-tile copies: what they cost, and where a tile's elements lie for them.
#ifndef IPU_MODEL_CORE_OPERATION_LOCAL_COPY_H_
#define IPU_MODEL_CORE_OPERATION_LOCAL_COPY_H_

#include <cstdint>
#include <vector>

#include "core/mapping/mapping.h"
#include "core/target/target_model.h"

namespace ipu_model {

// Elements of one tile that are copied there, and in how many rows of consecutive ones they lie.
struct LocalCopy {
  std::int64_t rows = 0, elements = 0;
};

// Returns the cycles of a copy of elements of `size` bytes by six workers, without those of calling it.
std::uint64_t LocalCopyCycles(const TargetModel& target, std::int64_t size, const LocalCopy& copy);

// Where the elements of a variable lie on their tiles: each tile has its own one after another, in the order
// of the variable.
class TileOrder {
 public:
  // Consecutive elements of the variable on a tile; `place`: how many the tile has before them.
  struct Row {
    unsigned tile;
    std::int64_t begin, end, place;
  };
  TileOrder(const Mapping& mapping, std::int64_t num_elements);

  // Calls visit(begin, end, place) for what `tile` has of [begin, end), in order.
  template <typename F>
  void ForEach(unsigned tile, std::int64_t begin, std::int64_t end, F&& visit) const {
    for (std::size_t r = First(tile, begin);
         r < rows_.size() && rows_[r].tile == tile && rows_[r].begin < end; ++r) {
      const Row& row = rows_[r];
      const std::int64_t from = row.begin < begin ? begin : row.begin, to = row.end < end ? row.end : end;
      visit(from, to, row.place + from - row.begin);
    }
  }

 private:
  // The first row of the tile that ends behind `begin`.
  std::size_t First(unsigned tile, std::int64_t begin) const;

  std::vector<Row> rows_;  // by tile and beginning
};

}  // namespace ipu_model

#endif  // IPU_MODEL_CORE_OPERATION_LOCAL_COPY_H_
