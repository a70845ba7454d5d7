// Cycles of elementwise vertices of which one operand repeats, along rows or columns.
#ifndef IPU_MODEL_OPERATIONS_ELEMENTWISE_BROADCAST_COST_H_
#define IPU_MODEL_OPERATIONS_ELEMENTWISE_BROADCAST_COST_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "core/target/target_model.h"
#include "kernels/elementwise/program/expression.h"
#include "operations/elementwise/operation_cost.h"

namespace ipu_model {

// How an operand repeats over the elements of a vertex, in the order of memory (PopLibs' BroadcastPattern).
struct Repetition {
  enum class Kind {
    kNone,    // no repetition, or one that no vertex of PopLibs has
    kOne,     // one element
    kVector,  // `slices` vectors of `length` elements, each `times` times
    kRows     // one element for each of `length` rows, each of `times` elements
  } kind = Kind::kNone;
  std::int64_t slices = 1, length = 1, times = 1;
};

// `extents`: of the vertex's elements, from the outermost dimension in memory to the innermost. `repeats`:
// along which of them the operand repeats; none if it is shorter.
Repetition RepetitionOf(const std::vector<std::int64_t>& extents, const std::vector<bool>& repeats);

// One vertex with all its workers: BroadcastVectorInner1D, BroadcastVectorOuterByRow1D or ByColumn1D, or
// their forms in place. Nothing if PopLibs' binaryOp (lib/popops/ElementWise.cpp) does not use one of them
// for this operation.
std::optional<std::uint64_t> VectorBroadcastCycles(const TargetModel& target, ScalarOp op, DType type,
                                                   bool in_place, const Repetition& repetition);

// The rows of the parts of a tile, each a region of elements for which the operand is one value. None if it
// is not so, or if they are more than PopLibs splits a tile's regions into
// (splitIntoScalarBroadcastPatterns).
std::vector<std::int64_t> ScalarRegions(const std::vector<std::vector<std::int64_t>>& extents,
                                        const std::vector<bool>& repeats);
// BroadcastScalar2D: one vertex for each worker, which share the regions of a tile; and whether PopLibs takes
// it at all (createVertexBinaryOpBroadcastScalar). `loop`: of BroadcastScalar1D.
std::pair<std::uint64_t, bool> ScalarBroadcastCycles(const TargetModel& target, ScalarOp op, DType type,
                                                     LoopCost loop, std::vector<std::int64_t> regions);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_ELEMENTWISE_BROADCAST_COST_H_
