// How a reduction is divided over tiles: directly at the tiles of the results, or by way of partial results
// in one or two stages.
#ifndef IPU_MODEL_OPERATIONS_REDUCE_REDUCE_STAGES_H_
#define IPU_MODEL_OPERATIONS_REDUCE_REDUCE_STAGES_H_

#include <cstdint>
#include <vector>

#include "core/mapping/mapping.h"
#include "core/target/target_model.h"
#include "operations/elementwise/elementwise_cost.h"

namespace ipu_model {

inline bool IsReduced(std::uint32_t mask, std::size_t dimension) { return (mask >> dimension & 1) != 0; }

// Whether the values of a result are adjacent in a row-major box.
inline bool ReducesInnermost(std::uint32_t mask, const std::vector<std::int64_t>& extents) {
  for (std::size_t d = extents.size(); d-- > 0;) {
    if (extents[d] > 1) return IsReduced(mask, d);
  }
  return true;
}

// Returns where the partial results are that a stage with the work grid `work` makes: [parts of the
// reduced dimensions..., kept dimensions...], each on the tile that computes it.
Grid PartialsPlacement(const Grid& work, std::uint32_t mask);

struct ReduceProblem {
  const ElementwiseCost& combiner;
  std::uint32_t mask;            // the reduced dimensions of the values
  Grid work;                     // of the values, for the first stage
  bool in_place;                 // whether `work` is the mapping of the values
  DType value, partial, result;  // the types of the first tensor
  std::int64_t value_bytes;      // of one value, in all tensors that are reduced together
  std::int64_t partial_bytes;    // of one partial result
  std::int64_t results;          // on the fullest tile
  std::int64_t reduced;          // values for each result
  unsigned first_tile = 0;       // of the results, where stages start that are spread anew
};

struct ReduceStages {
  // The work grids of the stages that make partial results; none if the tiles of the results receive the
  // values themselves. That of the second stage is over the placement's shape, whose leading dimensions it
  // reduces.
  std::vector<Grid> partials;
  double cycles = 0;  // estimated
};

// Returns the stages with the fewest estimated cycles. PopLibs also adds stages
// (lib/popops/reduction/ReductionStages.cpp).
ReduceStages ChooseReduceStages(const ReduceProblem& problem, const TargetModel& target, unsigned num_tiles);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_REDUCE_REDUCE_STAGES_H_
