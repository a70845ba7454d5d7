// Triangular systems and Cholesky factors.
#ifndef HLO_LINEAR_ALGEBRA_LINEAR_ALGEBRA_H_
#define HLO_LINEAR_ALGEBRA_LINEAR_ALGEBRA_H_

#include "hlo/Expansion.hpp"

namespace hlo {

// As in Expansions.
void expandTriangularSolve(poplar::Graph& graph, const poplar::Tensor& a, const poplar::Tensor& b,
                           const poplar::Tensor& out, bool inPlace, const TriangularOptions& options,
                           const Grid& grid, poplar::program::Sequence& prog,
                           const poplar::DebugContext& debugContext);
void expandCholesky(poplar::Graph& graph, const poplar::Tensor& a, const poplar::Tensor& out, bool lower,
                    const Grid& grid, poplar::program::Sequence& prog,
                    const poplar::DebugContext& debugContext);

}  // namespace hlo

#endif  // HLO_LINEAR_ALGEBRA_LINEAR_ALGEBRA_H_
