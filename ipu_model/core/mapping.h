// Where the elements of a variable live: a block partition over tiles in closed form, or explicit runs.
#ifndef IPU_MODEL_CORE_MAPPING_H_
#define IPU_MODEL_CORE_MAPPING_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "core/box.h"

namespace ipu_model {

// One vertex's share of an operation's iteration space.
struct Vertex {
  unsigned tile = 0;
  Box box;
};

// Balanced block partition of `shape`: dimension d has ceil(shape[d] / grain[d]) grains, part p of parts[d]
// takes the grains [p * G / P, (p + 1) * G / P). The part (p0, p1, ...) is on tile (first_tile + sum(p_d *
// tile_stride[d])) % num_tiles.
struct Partition {
  Shape shape, parts, grain, tile_stride;
  unsigned first_tile = 0, num_tiles = 1;

  std::int64_t num_parts() const { return NumElements(parts); }
  std::int64_t Begin(int dim, std::int64_t part) const;
  std::int64_t PartOf(int dim, std::int64_t index) const;
  std::int64_t LargestPart(int dim) const;
  // One vertex for every non-empty part.
  std::vector<Vertex> Vertices() const;

  // 1-D balanced split with poputil::mapTensorLinearly's rule (facts: grain and minimum elements per tile).
  static Partition Linear(std::int64_t elements, std::int64_t min_per_tile, std::int64_t grain,
                          unsigned num_tiles, unsigned first_tile = 0);
  // parts[d] parts per dimension, tiles numbered row-major over the parts from first_tile.
  static Partition Grid(Shape shape, Shape parts, unsigned num_tiles, unsigned first_tile = 0);

  // The same description; different ones can still mean the same placement.
  friend bool operator==(const Partition& a, const Partition& b) {
    return a.shape == b.shape && a.parts == b.parts && a.grain == b.grain && a.tile_stride == b.tile_stride &&
           a.first_tile == b.first_tile && a.num_tiles == b.num_tiles;
  }
};

struct Run {
  std::int64_t begin, end;
  unsigned tile;
};

class Mapping {
 public:
  Mapping() = default;
  // partition.shape must have as many elements as the variable (it may factorise it differently).
  explicit Mapping(Partition partition);
  // Runs sorted by begin; must not overlap. May be incomplete while a graph is built.
  explicit Mapping(std::vector<Run> runs);

  bool empty() const;
  bool Complete(std::int64_t num_elements) const;
  const Partition* partition() const;  // null when explicit
  unsigned TileOf(std::int64_t element) const;
  // Calls f(begin, end, tile) for the runs that cover [begin, end), in order.
  template <typename F>
  void ForEachRun(std::int64_t begin, std::int64_t end, F&& f) const {
    std::vector<Run> runs;
    Runs(begin, end, &runs);
    for (const Run& r : runs) f(r.begin, r.end, r.tile);
  }
  void Runs(std::int64_t begin, std::int64_t end, std::vector<Run>* out) const;
  // Elements on each tile; size num_tiles.
  std::vector<std::int64_t> ElementsPerTile(std::int64_t num_elements, unsigned num_tiles) const;
  // How many of the elements of `view` inside `region` (over view.shape) are on `tile`. Exact.
  std::int64_t Held(unsigned tile, const View& view, const Box& region) const;
  // One or more vertices per tile, their boxes (over view.shape) covering exactly what that tile holds of the
  // view (each element of a view without aliases once).
  std::vector<Vertex> VerticesOver(const View& view, unsigned num_tiles) const;

  // The same placement, however described; expands both when the descriptions differ.
  bool operator==(const Mapping& other) const;

 private:
  Partition partition_;
  bool has_partition_ = false;
  std::vector<Run> runs_;
};

// The partition of a variable in whose memory the elements of `view` stand in the order of its dimensions.
// False unless `mapping` is a partition and the view permutes groups of that one's dimensions.
bool ReorderedPartition(const Mapping& mapping, const View& view, Partition* out);

}  // namespace ipu_model

#endif  // IPU_MODEL_CORE_MAPPING_H_
