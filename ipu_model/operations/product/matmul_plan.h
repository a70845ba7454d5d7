// The planner of grouped matrix products: chooses how a product is cut over tiles.
#ifndef IPU_MODEL_OPERATIONS_PRODUCT_MATMUL_PLAN_H_
#define IPU_MODEL_OPERATIONS_PRODUCT_MATMUL_PLAN_H_

#include <cstdint>
#include <vector>

#include "core/mapping/box.h"
#include "core/mapping/mapping.h"
#include "core/target/target_model.h"

namespace ipu_model {

// The dimensions of C[g, m, n] = A[g, m, k] . B[g, k, n], in the order of MatMulPlan::grid.
enum MatMulDim : int { kGroupDim = 0, kRowDim, kColumnDim, kDepthDim };

struct MatMulOptions {
  double available_memory_proportion = 0.6;  // fraction of tile memory for temporaries
  bool half_partials = false;
  bool wide_weight_loads = false;
  bool multi_stage_reduce = true;
  // kTrainingForward: the plan is for all three products of a training step.
  enum class Pass { kNone, kInferenceForward, kTrainingForward, kTrainingBackward, kTrainingWeightUpdate };
  Pass pass = Pass::kNone;
};

// The split of one dimension of an operand: part p of `parts` is on tile + p * stride. Each part may be cut
// again into `inner_parts` parts, inner_stride tiles apart.
struct DimSplit {
  std::int64_t parts = 1, stride = 0, inner_parts = 1, inner_stride = 0;
};

// An operand's mapping in terms of its matrix dimensions [group, row, column], if it can be expressed so.
struct OperandMapping {
  bool known = false;
  DimSplit dims[3];
  unsigned first_tile = 0;
};
OperandMapping OperandMappingOf(const View& view, const Mapping& mapping, unsigned num_tiles);

struct MatMulProblem {
  std::int64_t groups = 1, rows = 1, columns = 1, depth = 1;
  DType a_type = DType::kF32, b_type = DType::kF32, out_type = DType::kF32;
  // Mappings of the operands; the planner prefers plans that use them in place.
  OperandMapping a, b;
  // The mapping of the result, if it is given.
  OperandMapping out;
  // True for operands that are created later, with the mapping that the plan prefers.
  bool a_follows_plan = false, b_follows_plan = false;
  // Where plans start that use no operand in place.
  unsigned first_tile = 0;
  MatMulOptions options;
};

struct MatMulPlan {
  // Over [groups, rows, columns, depth]; every part is one vertex.
  Grid grid;
  // If above 1, consecutive partial sums are first added to so many sums, and then those; otherwise one
  // stage.
  std::int64_t stage_sums = 1;
  // To limit the memory, the outputs of every part are computed in output_steps steps along output_dim, rows
  // or columns, and in each of them the depth in depth_steps steps that add to the partial sums (PopLibs:
  // outChanSplit.serial and inChanSplit.serial). With several steps over the outputs, sums have one stage.
  MatMulDim output_dim = kColumnDim;
  std::int64_t output_steps = 1, depth_steps = 1;
  // With steps over the outputs alone: whether the operand that they do not cut is exchanged once, before
  // them (PopLibs: broadcastInputBeforeLoop).
  bool keeps_operand = false;
  // Whether A's rows stay in the AMP, and B's columns are streamed past them (PopLibs: swapOperands).
  bool rows_in_units = true;
  // Whether A and B are rearranged before they are used, as they are not in the order of the plan.
  bool rearrange_a = false, rearrange_b = false;
  // The most bytes of A and B that a tile receives. Negative if that is not known: then all of its block is
  // counted.
  std::int64_t received_a = -1, received_b = -1;
  bool wide_weight_loads = false;
  DType partial_type = DType::kF32;
  // With half partials: the number of k whose products the AMP adds before it rounds; otherwise 0.
  std::int64_t half_step = 0;
  // The planner's estimates for the product alone.
  double cycles = 0;
  double temporary_bytes = 0;
};

MatMulPlan PlanMatMul(const TargetModel& target, unsigned num_tiles, const MatMulProblem& problem);

// Returns the grid of the partial sums [parts of depth, groups, rows, columns], each on the tile that
// computes it.
Grid PartialsGrid(const MatMulPlan& plan);
// Returns the number of sums that the first of two stages makes of `partials` partial sums, or 1 for one
// stage.
std::int64_t StageSums(std::int64_t partials);
// Returns the first partial sum of a sum of the first stage.
std::int64_t FirstTerm(std::int64_t partials, std::int64_t sums, std::int64_t sum);
// Returns the grid of the plan.stage_sums sums of the first stage, each cut among the tiles of its partials.
Grid FirstStageGrid(const MatMulPlan& plan);

// Return the mappings that the plan prefers for operands and result: every block is cut among the tiles that
// use it. Shapes are those of the tensors, possibly with one dimension factorised.
Grid LhsGrid(const MatMulPlan& plan);
Grid RhsGrid(const MatMulPlan& plan);
Grid OutputGrid(const MatMulPlan& plan);
// With several steps over the outputs: the dimension, rows or columns, along which the tiles that have
// partial sums of a block of a step share it.
MatMulDim SharedOutputDim(const MatMulPlan& plan);
// Returns the parts of OutputGrid as boxes over [groups, rows, columns], one per tile.
std::vector<Vertex> OutputVertices(const MatMulPlan& plan);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_PRODUCT_MATMUL_PLAN_H_
