// The vertices of a gather, and of a dynamic slice, which is a gather of one window.
#ifndef IPU_MODEL_OPERATIONS_INDEX_GATHER_PLAN_H_
#define IPU_MODEL_OPERATIONS_INDEX_GATHER_PLAN_H_

#include <string>
#include <vector>

#include "core/operation/operation.h"
#include "hlo/Expansion.hpp"
#include "kernels/index/indexed_window.h"

namespace ipu_model {

struct GatherProblem {
  IndexedWindow window;
  DType type = DType::kF32;        // of the operand
  DType index_type = DType::kS32;  //
  Shape operand, indices, out;     // `indices` is {number of starts} if the starts are scalars
  Shape slice_sizes;
  bool scalar_starts = false;  // inputs are operand, start_0, start_1, ...; otherwise operand, indices
  std::string codelet;
  // The operand's view, and the mapping of its variable; null if unknown.
  View view;
  const Mapping* mapping = nullptr;
  // The same for the result.
  View out_view;
  const Mapping* out_mapping = nullptr;
  // The bytes of a tile's memory for buffers and partial results; 0: as many as give few cycles.
  std::int64_t buffer_limit = 0;
};

// Returns the placement of whole tensors.
WindowPlacement WholePlacement(const Shape& operand, const Shape& slice_sizes);

// Returns the grid of the result over the tiles that compute it; its shape is that of `out`.
Grid GatherOutputGrid(const GatherProblem& problem, const TargetModel& target, unsigned num_tiles);

TilePlan PlanGather(const GatherProblem& problem, const TargetModel& target, unsigned num_tiles);

// What the expansion of the plan needs to know: all but the plan itself.
hlo::GatherPlan DescribeGather(const GatherProblem& problem, const TargetModel& target, unsigned num_tiles);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_INDEX_GATHER_PLAN_H_
