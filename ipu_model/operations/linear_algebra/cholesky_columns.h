// Cholesky factors, column by column: each tile has rows of a matrix, or workers share one after the other.
#ifndef IPU_MODEL_OPERATIONS_LINEAR_ALGEBRA_CHOLESKY_COLUMNS_H_
#define IPU_MODEL_OPERATIONS_LINEAR_ALGEBRA_CHOLESKY_COLUMNS_H_

#include "core/operation/operation.h"
#include "core/target/target_model.h"

namespace ipu_model {

// Whether columns take fewer cycles than `other`, and not too many supersteps.
bool CholeskyColumnsPay(const Shape& shape, DType type, const TargetModel& target, unsigned num_tiles,
                        std::uint64_t other);

// Rows of each matrix on tiles, or whole matrices if there are more than tiles.
Grid CholeskyRowsGrid(const Shape& shape, DType type, const TargetModel& target, unsigned num_tiles);

// Left-looking: in each superstep all tiles compute the entries of one column in their rows, from the entries
// before in these rows and in the row of the pivot. Inputs: a; outputs: the factor. A temporary has the rows.
TilePlan PlanCholeskyColumns(const Shape& shape, DType type, bool lower, const TargetModel& target,
                             unsigned num_tiles);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_LINEAR_ALGEBRA_CHOLESKY_COLUMNS_H_
