// The supersteps of a reduction from both sides, of matrices whose columns are spread over tiles: one column
// for each worker. For each column there are supersteps that multiply the matrix by the reflector, with
// columns and with rows, and one that updates the columns, in which the tile of the next column finds its
// reflector.
#ifndef IPU_MODEL_OPERATIONS_LINEAR_ALGEBRA_TWO_SIDED_STEPS_H_
#define IPU_MODEL_OPERATIONS_LINEAR_ALGEBRA_TWO_SIDED_STEPS_H_

#include <cstdint>

#include "core/operation/operation.h"
#include "hlo/LinearAlgebra.hpp"

namespace ipu_model {

// Model estimates: pointers, lengths and strides of a vertex, and the code of all its codelets.
inline constexpr std::uint64_t kTwoSidedVertexBytes = 48, kTwoSidedCodeBytes = 1540;

inline bool HasRowReflectors(hlo::TwoSidedForm form) { return form == hlo::TwoSidedForm::kBidiagonal; }
// The pivot of the reflector of column j.
inline std::int64_t PivotOfColumn(hlo::TwoSidedForm form, std::int64_t j) {
  return HasRowReflectors(form) ? j : j + 1;
}
// The number of reflectors of columns, of n.
inline std::int64_t ColumnReflectors(hlo::TwoSidedForm form, std::int64_t n) {
  return n - (HasRowReflectors(form) ? 0 : 1);
}

// Parts of a batch of n columns: whole columns, one for each worker of a tile, or whole matrices if there are
// more than tiles.
Grid TwoSidedColumns(const Shape& shape, DType type, unsigned workers, unsigned num_tiles);
// Grid of `extent` elements for each matrix, on the tile of the first columns.
Grid BesideFirstColumns(Grid columns, std::int64_t extent);

// input: the columns; outputs: the columns with reflectors, taus; for the bidiagonal form also reflectors of
// rows and their taus.
TilePlan PlanTwoSidedSteps(hlo::TwoSidedForm form, DType type, const Grid& columns);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_LINEAR_ALGEBRA_TWO_SIDED_STEPS_H_
