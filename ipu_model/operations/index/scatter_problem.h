// What the vertices of a scatter share, and the part of it that each one needs.
#ifndef IPU_MODEL_OPERATIONS_INDEX_SCATTER_PROBLEM_H_
#define IPU_MODEL_OPERATIONS_INDEX_SCATTER_PROBLEM_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/mapping/box.h"
#include "core/target/target_model.h"
#include "ipu_model/Types.hpp"
#include "kernels/index/indexed_window.h"
#include "kernels/index/scatter.h"
#include "operations/index/index_cost.h"

namespace ipu_model {

// The data that the vertices of a scatter share.
struct ScatterProblem {
  IndexedWindow window;
  Shape operand, indices, updates;
  Shape slice_sizes;
  DType type = DType::kF32;
  bool unique = false;
  UpdateKind update = UpdateKind::kOther;
  std::size_t num_operands = 1;
  std::shared_ptr<const ScatterKernel> kernel;

  bool Indexed(std::size_t d) const { return window.component[d] >= 0 && slice_sizes[d] < operand[d]; }
};

// Returns the kind of the update body of one operand, whose inputs are the element and its update.
UpdateKind UpdateKindOf(const Expression& update);

// Returns the part of the updates that a vertex on `box` of the operand needs in one superstep, which applies
// the updates `step`.
Box UpdatesRegion(const ScatterProblem& p, const Box& step, const Box& box);
Box IndicesRegion(const ScatterProblem& p, const Box& updates);

// Whether a batch dimension is paired with a dimension of the operand: different positions then update
// different elements.
bool Walks(const ScatterProblem& p, int b);

// For the kernel, on a vertex that applies the region `updates` of the updates to `box` of the operand.
WindowPlacement VertexPlacement(const ScatterProblem& p, const Box& updates, const Box& box);

// Returns the cycles of such a vertex. Windows are taken to fall evenly.
std::uint64_t VertexCycles(const TargetModel& target, const ScatterProblem& p, const Box& updates,
                           const Box& box);

// What that vertex takes more where it marks the elements that it replaces.
std::uint64_t MarkCycles(const TargetModel& target, const ScatterProblem& p, const Box& updates,
                         const Box& box);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_INDEX_SCATTER_PROBLEM_H_
