// How a gather is cut over tiles: where its operand lies, or in a layout of its own; and in how many steps.
#ifndef IPU_MODEL_OPERATIONS_INDEX_GATHER_LAYOUT_H_
#define IPU_MODEL_OPERATIONS_INDEX_GATHER_LAYOUT_H_

#include <cstdint>
#include <vector>

#include "core/mapping.h"
#include "operations/index/gather_plan.h"

namespace ipu_model {

// How one dimension is cut: into `outer` equal blocks, each a balanced partition into `parts`. Part
// outer_index * parts + index is on tile outer_index * outer_stride + index * stride.
struct Cut {
  std::int64_t extent = 1, outer = 1, outer_stride = 0, parts = 1, stride = 0, grain = 1;

  std::int64_t inner() const { return extent / outer; }
  std::int64_t num_parts() const { return outer * parts; }
  std::int64_t Begin(std::int64_t part) const;
  std::int64_t PartOf(std::int64_t index) const;
  std::int64_t Largest() const;
  std::int64_t TileOffset(std::int64_t part) const {
    return part / parts * outer_stride + part % parts * stride;
  }
  // Adds the dimension to a partition, as two where it has outer blocks.
  void AppendTo(Partition* partition) const;
};

// The iteration space of the first superstep: operand dimensions (a window dimension over the window, an
// indexed dimension over the operand), then batch dimensions. A batch dimension that walks an operand
// dimension is cut as that one is, and has the cut of one part itself.
struct GatherLayout {
  std::vector<Cut> dims;
  unsigned first_tile = 0, num_tiles = 1;
  std::vector<int> split;  // the indexed dimensions that are cut
  bool in_place = false;   // the operand lies like this
  Shape chunk;             // by batch dimension: how many positions one step looks up

  // The partial results for each window, one of which is the right one.
  std::int64_t num_partials() const {
    std::int64_t n = 1;
    for (const int d : split) n *= dims[static_cast<std::size_t>(d)].num_parts();
    return n;
  }
};

bool Indexed(const GatherProblem& p, std::size_t d);
// Per batch dimension: the operand dimension that it walks, or -1.
std::vector<int> WalkedDims(const GatherProblem& p);

// The cheapest by cycles. An operand of which a tile holds much is looked up where it lies, as long as that
// is not many times dearer: its copy would need as much memory again.
GatherLayout ChooseGatherLayout(const GatherProblem& p, const TargetModel& target, unsigned num_tiles);

// Where an operand that is yet to be created should lie: for the lookup, and for passes over the whole of it.
Partition GatherInputPartition(const GatherProblem& p, const TargetModel& target, unsigned num_tiles);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_INDEX_GATHER_LAYOUT_H_
