// How a gather is divided among tiles: with the operand in place or mapped anew, and in how many steps.
#ifndef IPU_MODEL_OPERATIONS_INDEX_GATHER_DIVISION_H_
#define IPU_MODEL_OPERATIONS_INDEX_GATHER_DIVISION_H_

#include <cstdint>
#include <vector>

#include "core/mapping/mapping.h"
#include "operations/index/gather_plan.h"

namespace ipu_model {

// The cut of one dimension: into `outer` equal blocks, each cut into `parts` balanced parts. Part
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
  // Adds the dimension to a grid: as two dimensions if it has outer blocks.
  void AppendTo(Grid* grid) const;
};

// The cuts of the iteration space of the first superstep: the operand dimensions (the window's extent for a
// window dimension, the operand's for an indexed one), then the batch dimensions. A batch dimension that is
// paired with an operand dimension follows its cut; its own cut has one part. The cut of another batch
// dimension is that of the positions of one step.
struct GatherDivision {
  std::vector<Cut> dims;
  unsigned first_tile = 0, num_tiles = 1;
  std::vector<int> split;  // the indexed dimensions that are cut
  bool in_place = false;   // whether this is the operand's own mapping
  Shape chunk;             // by batch dimension: number of positions per step
  double cycles = 0;       // as they are compared
  bool fits = true;        // whether buffers and a copy of the operand are within their limits

  // Returns the number of partial results per window, one of which is the result.
  std::int64_t num_partials() const {
    std::int64_t n = 1;
    for (const int d : split) n *= dims[static_cast<std::size_t>(d)].num_parts();
    return n;
  }
};

bool Indexed(const GatherProblem& p, std::size_t d);
// Returns, per batch dimension, the operand dimension that it is paired with, or -1.
std::vector<int> WalkedDims(const GatherProblem& p);

// Finds the cuts of the operand's dimensions. Returns false unless its mapping is a grid that is aligned
// with them.
bool CutsOfOperand(const GatherProblem& p, std::vector<Cut>* cuts, unsigned* first_tile);

// Returns the division with the fewest cycles of those whose buffers and copy of the operand are within their
// limits.
GatherDivision ChooseGatherDivision(const GatherProblem& p, const TargetModel& target, unsigned num_tiles);

// Returns the best placement of an operand that is still to be created, for the lookup and, if it
// `has_passes`, for operations on all of it. Without them, a placement is as good as another that uses
// somewhat more tiles.
Grid GatherInputGrid(const GatherProblem& p, const TargetModel& target, unsigned num_tiles, bool has_passes);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_INDEX_GATHER_DIVISION_H_
