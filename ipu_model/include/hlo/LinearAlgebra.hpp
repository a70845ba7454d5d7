// Triangular systems in StableHLO's form, and steps of dense decompositions, which PopLibs has no functions
// for. All take batches, and throw poplar::poplar_error when shapes or types do not fit.
#ifndef HLO_LINEARALGEBRA_HPP
#define HLO_LINEARALGEBRA_HPP

#include <vector>

#include "hlo/TriangularOptions.hpp"
#include "poplar/Graph.hpp"

namespace hlo {

// poplin::triangularSolve with op(a) in place of a: the transpose or the adjoint.
poplar::Tensor triangularSolve(poplar::Graph& graph, const poplar::Tensor& a, const poplar::Tensor& b,
                               const TriangularOptions& options, poplar::program::Sequence& prog,
                               const poplar::DebugContext& debugContext = {});

struct LuPanel {
  poplar::Tensor factors, pivots, order;
};

// LU factorisation of a few columns with partial pivots: a [..., m, n], m >= n, f32, f64, c64 or c128.
// factors [..., m, n] is U above L without its diagonal of ones; row k changed places with row pivots[k] (s32
// [..., n]), in turn; row i of L U is row order[i] (s32 [..., m]) of a.
LuPanel luPanel(poplar::Graph& graph, const poplar::Tensor& a, poplar::program::Sequence& prog,
                const poplar::DebugContext& debugContext = {});

// The eigenvalues [..., n], in no order, of symmetric matrices with diagonal d [..., n] and e [..., n - 1]
// beside it, and G rows for the G with G T G^T diagonal; rows [..., n, k]. f32 or f64. NaN where it does not
// converge. By the implicit QR algorithm.
std::vector<poplar::Tensor> tridiagonalQr(poplar::Graph& graph, const poplar::Tensor& d,
                                          const poplar::Tensor& e, const std::vector<poplar::Tensor>& rows,
                                          poplar::program::Sequence& prog,
                                          const poplar::DebugContext& debugContext = {});

// The singular values [..., n], in no order, of matrices with diagonal d [..., n] and e [..., n - 1] above
// it; for rows = {left, right}, L left and R right as well, with L B R^T diagonal. Otherwise the same.
std::vector<poplar::Tensor> bidiagonalQr(poplar::Graph& graph, const poplar::Tensor& d,
                                         const poplar::Tensor& e, const std::vector<poplar::Tensor>& rows,
                                         poplar::program::Sequence& prog,
                                         const poplar::DebugContext& debugContext = {});

}  // namespace hlo

#endif  // HLO_LINEARALGEBRA_HPP
