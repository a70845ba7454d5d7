// Sums, products, extrema and replacements that scatter divides by updates: tiles combine shares of the
// updates in partial results, which are then combined with the operand. PopLibs plans multiUpdateAdd so
// (lib/popops/DynamicSlice.cpp, the split of lookups).
#ifndef IPU_MODEL_OPERATIONS_INDEX_SCATTER_PARTIALS_H_
#define IPU_MODEL_OPERATIONS_INDEX_SCATTER_PARTIALS_H_

#include <memory>
#include <vector>

#include "core/operation/operation.h"
#include "kernels/elementwise/program/expression.h"
#include "operations/index/scatter_problem.h"

namespace ipu_model {

// Makes `plan` such a plan, and returns true, if partial results can be formed and the plan takes fewer
// cycles than one in which every vertex of the result applies the updates of each step in `steps`. The order
// of summation differs. `cycles`: those of the better of both, 0 if partial results cannot be formed.
// `buffer_limit`: the bytes of a tile's memory for buffers, or 0 for the usual ones.
bool PlanScatterPartials(const std::shared_ptr<const ScatterProblem>& p, const Expression& update,
                         const DeviceContext& context, const View& result,
                         const std::vector<Vertex>& vertices, const std::vector<Box>& steps,
                         std::int64_t buffer_limit, double* cycles, TilePlan* plan);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_INDEX_SCATTER_PARTIALS_H_
