// Cholesky factors of few matrices, column by column.
#ifndef HLO_LINEAR_ALGEBRA_CHOLESKY_COLUMNS_H_
#define HLO_LINEAR_ALGEBRA_CHOLESKY_COLUMNS_H_

#include "hlo/Plan.hpp"
#include "poplar/Graph.hpp"

namespace hlo {

// As in Expansions.
void expandCholeskyColumns(poplar::Graph& graph, const poplar::Tensor& a, const poplar::Tensor& out,
                           bool lower, const Plan& plan, poplar::program::Sequence& prog,
                           const poplar::DebugContext& debugContext);

}  // namespace hlo

#endif  // HLO_LINEAR_ALGEBRA_CHOLESKY_COLUMNS_H_
