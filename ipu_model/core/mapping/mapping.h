// The mapping of a variable's elements to tiles: a grid of blocks in closed form, or explicit intervals.
#ifndef IPU_MODEL_CORE_MAPPING_MAPPING_H_
#define IPU_MODEL_CORE_MAPPING_MAPPING_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "core/mapping/box.h"
#include "core/mapping/grid.h"

namespace ipu_model {

// Elements [begin, end) of a variable, which are on one tile.
struct MappedInterval {
  std::int64_t begin, end;
  unsigned tile;
};

inline constexpr unsigned kNoTile = ~0u;

class Mapping {
 public:
  Mapping() = default;
  // grid.shape must have as many elements as the variable; its factorisation may differ.
  explicit Mapping(Grid grid);
  // The intervals must be sorted by begin and disjoint. They may be incomplete while a graph is built.
  explicit Mapping(std::vector<MappedInterval> intervals);

  // Maps these intervals, and leaves the others as they are; where intervals overlap, the one that begins
  // first counts. Cheap: the work is done when the mapping is next read, which no two threads may do at once
  // until Settle was called.
  void Overwrite(std::vector<MappedInterval> intervals, std::int64_t num_elements);
  void Settle() const;

  bool empty() const;
  bool Complete(std::int64_t num_elements) const;
  const Grid* grid() const;  // null if the mapping is explicit
  unsigned TileOf(std::int64_t element) const;
  // Returns consecutive elements, `element` among them, that are on one tile, or on none (kNoTile); as many
  // as are found at once.
  MappedInterval IntervalAt(std::int64_t element) const;
  // Calls f(begin, end, tile) for the intervals that cover [begin, end), in order.
  template <typename F>
  void ForEachInterval(std::int64_t begin, std::int64_t end, F&& f) const {
    std::vector<MappedInterval> intervals;
    Intervals(begin, end, &intervals);
    for (const MappedInterval& r : intervals) f(r.begin, r.end, r.tile);
  }
  void Intervals(std::int64_t begin, std::int64_t end, std::vector<MappedInterval>* out) const;
  // Returns the number of elements on each tile; the result has num_tiles entries.
  std::vector<std::int64_t> ElementsPerTile(std::int64_t num_elements, unsigned num_tiles) const;
  // Returns the exact number of elements of `view` inside `region` (over view.shape) that are on `tile`.
  std::int64_t Held(unsigned tile, const View& view, const Box& region) const;
  // Returns one or more vertices per tile. Their boxes (over view.shape) cover exactly the elements of the
  // view that the tile holds, each element of a view without aliases once.
  std::vector<Vertex> VerticesOver(const View& view, unsigned num_tiles) const;

  // Whether both mean the same placement. Expands both if the descriptions differ.
  bool operator==(const Mapping& other) const;

 private:
  const std::vector<MappedInterval>& intervals() const {
    Settle();
    return intervals_;
  }

  Grid grid_;
  bool has_grid_ = false;
  // What was added since the intervals were last put in order: all intervals, and where those of each call
  // begin.
  mutable std::vector<MappedInterval> intervals_, added_intervals_;
  mutable std::vector<std::size_t> added_;
};

// Finds the grid of a variable whose memory order is the order of `view`. Returns false unless `mapping`
// is a grid and the view permutes groups of its dimensions.
bool ReorderedGrid(const Mapping& mapping, const View& view, Grid* out);

}  // namespace ipu_model

#endif  // IPU_MODEL_CORE_MAPPING_MAPPING_H_
