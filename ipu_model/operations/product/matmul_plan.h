// Chooses how a grouped matrix product is cut over tiles.
#ifndef IPU_MODEL_OPERATIONS_PRODUCT_MATMUL_PLAN_H_
#define IPU_MODEL_OPERATIONS_PRODUCT_MATMUL_PLAN_H_

#include <cstdint>
#include <vector>

#include "core/box.h"
#include "core/mapping.h"
#include "core/target_model.h"

namespace ipu_model {

// The dimensions of C[g, m, n] = A[g, m, k] . B[g, k, n], in the order of MatMulPlan::grid.
enum MatMulDim : int { kGroupDim = 0, kRowDim, kColumnDim, kDepthDim };

struct MatMulOptions {
  double available_memory_proportion = 0.6;  // of tile memory, for temporaries
  bool half_partials = false;
  bool wide_weight_loads = false;
  bool multi_stage_reduce = true;
  // kTrainingForward: the plan is for all three products of a training step.
  enum class Pass { kNone, kInferenceForward, kTrainingForward, kTrainingBackward, kTrainingWeightUpdate };
  Pass pass = Pass::kNone;
};

// How one dimension of an operand is spread over tiles: part p of `parts` is on tile + p * stride; a part may
// be cut once more into `inner_parts`, inner_stride tiles apart.
struct DimSplit {
  std::int64_t parts = 1, stride = 0, inner_parts = 1, inner_stride = 0;
};

// An operand's mapping in terms of its matrix dimensions [group, row, column], where it can be expressed so.
struct OperandLayout {
  bool known = false;
  DimSplit dims[3];
  unsigned first_tile = 0;
};
OperandLayout LayoutOf(const View& view, const Mapping& mapping, unsigned num_tiles);

struct MatMulProblem {
  std::int64_t groups = 1, rows = 1, columns = 1, depth = 1;
  DType a_type = DType::kF32, b_type = DType::kF32, out_type = DType::kF32;
  // Where the operands are; the planner prefers plans that leave them there.
  OperandLayout a, b;
  // The mapping that the result will have, where it is given.
  OperandLayout out;
  // An operand that is yet to be created will be mapped as the plan likes it.
  bool a_follows_plan = false, b_follows_plan = false;
  MatMulOptions options;
};

struct MatMulPlan {
  // Over [groups, rows, columns, depth]; every part is one vertex.
  Partition grid;
  // Partial sums are added in one stage, or first `first_stage` consecutive ones (> 1), then the rest.
  std::int64_t first_stage = 1;
  // The columns of every part are done in this many steps, and in each of them the rows, to bound the memory.
  std::int64_t column_steps = 1, row_steps = 1;
  // Or the depth of every part is done in steps that add to its partial sums.
  std::int64_t depth_steps = 1;
  bool wide_weight_loads = false;
  DType partial_type = DType::kF32;
  // With half partials: the AMP adds the products of this many k before it rounds. 0 with any others.
  std::int64_t half_step = 0;
  // Estimates of the planner, for the product alone.
  double cycles = 0;
  double temporary_bytes = 0;
};

MatMulPlan PlanMatMul(const TargetModel& target, unsigned num_tiles, const MatMulProblem& problem);

// The partial sums [parts of depth, groups, rows, columns], each on the tile that computes it.
Partition PartialsPartition(const MatMulPlan& plan);
// The sums of plan.first_stage partials each, cut between the tiles that computed them.
Partition FirstStagePartition(const MatMulPlan& plan);

// Where the operands and the result lie when they follow the plan: every block on the tiles that use it, cut
// between them. Shapes are those of the tensors, possibly with one dimension factorised.
Partition LhsPartition(const MatMulPlan& plan);
Partition RhsPartition(const MatMulPlan& plan);
Partition OutputPartition(const MatMulPlan& plan);
// The parts of OutputPartition as boxes over [groups, rows, columns], one for each tile.
std::vector<Vertex> OutputVertices(const MatMulPlan& plan);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_PRODUCT_MATMUL_PLAN_H_
