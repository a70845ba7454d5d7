// The vertices of an operation with the moves between the memories of the tiles and their operands.
#ifndef IPU_MODEL_ENGINE_TILE_PLANNED_OPERATION_H_
#define IPU_MODEL_ENGINE_TILE_PLANNED_OPERATION_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "core/operation/operation.h"
#include "engine/program/plan_context.h"
#include "engine/tile/tile_storage.h"

namespace ipu_model {

// One region of one operand of one vertex, and the moves that fill or store its dense copy.
struct LocalOperand {
  Shape shape;
  std::size_t offset = 0;  // of the copy in the local buffers
  std::vector<TileMove> moves;
};

struct PlannedVertex {
  const VertexGroup* group;
  const Vertex* vertex;
  std::vector<LocalOperand> reads, writes;
};

struct PlannedStep {
  std::vector<PlannedVertex> vertices;
  std::size_t local_bytes = 0;
};

struct PlannedOperation {
  TilePlan plan;
  std::vector<Placement> temporaries;
  std::vector<PlannedStep> steps;
};

// Plans operations whose operands are in `placements`, by variable. All of these must outlive it.
class OperationPlanner {
 public:
  OperationPlanner(const PlanContext& context, TileStorage* storage, const std::vector<Placement>& placements)
      : context_(context), storage_(*storage), placements_(placements) {}

  // Throws poplar::poplar_error for a vertex that is on no tile, reaches beyond a tensor, or writes what
  // another one of its superstep writes; poplar::invalid_tile_mapping for an element on no tile.
  std::unique_ptr<PlannedOperation> Plan(const Operation& operation);

 private:
  std::string DescribeOperand(const Operation& operation, OperandRef ref) const;
  const Placement& PlacementOf(const Operation& operation, const PlannedOperation& planned,
                               OperandRef ref) const;
  LocalOperand PlanOperand(const Operation& operation, const PlannedOperation& planned,
                           const VertexGroup::Access& access, const Vertex& vertex,
                           std::size_t* local_bytes) const;
  // Vertices of a superstep run in parallel, so no two may write the same element.
  void CheckWrites(const Operation& operation, const PlannedOperation& planned,
                   const PlannedStep& step) const;

  const PlanContext& context_;
  TileStorage& storage_;
  const std::vector<Placement>& placements_;
};

}  // namespace ipu_model

#endif  // IPU_MODEL_ENGINE_TILE_PLANNED_OPERATION_H_
