// Triangular systems in StableHLO's form, and steps of dense decompositions, which PopLibs has no functions
// for. All take batches, and throw poplar::poplar_error when shapes or types do not fit.
#ifndef HLO_LINEARALGEBRA_HPP
#define HLO_LINEARALGEBRA_HPP

#include <vector>

#include "hlo/SchurLimits.hpp"
#include "hlo/TriangularOptions.hpp"
#include "hlo/TwoSidedForm.hpp"
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
// factors [..., m, n] is U above L without its diagonal of ones; row k was swapped with row pivots[k] (s32
// [..., n]), in order of k; row i of L U is row order[i] (s32 [..., m]) of a.
LuPanel luPanel(poplar::Graph& graph, const poplar::Tensor& a, poplar::program::Sequence& prog,
                const poplar::DebugContext& debugContext = {});

struct QrPanel {
  poplar::Tensor packed, taus;
};

// QR factorisation by Householder reflections, as LAPACK's geqrf: a [..., m, n], f32, f64, c64 or c128, for
// few columns. packed [..., m, n] is R above the reflectors without their ones, taus [..., min(m, n)].
QrPanel qrPanel(poplar::Graph& graph, const poplar::Tensor& a, poplar::program::Sequence& prog,
                const poplar::DebugContext& debugContext = {});

struct TwoSided {
  poplar::Tensor packed, taus, rowReflectors, rowTaus;
};

// Reduction of square matrices a [..., n, n], n > 1, f32, f64, c64 or c128, by Householder reflections from
// both sides, as LAPACK's gehrd, sytrd or hetrd (a Hermitian, both triangles given), and gebrd.
// Hessenberg and tridiagonal: packed [..., n, n] has H, of T only the diagonal and what is under it, above
// the reflectors, which start under the diagonal; taus [..., n - 1]; Q^H a Q = H. Bidiagonal: packed has the
// diagonal above reflectors that start on it, taus [..., n]; rowReflectors
// [..., n, n - 1] has the entries beside the diagonal above reflectors that start under it, rowTaus
// [..., n - 1]; Q^H a P = B. What is above the diagonals is undefined, but for H.
TwoSided twoSided(poplar::Graph& graph, TwoSidedForm form, const poplar::Tensor& a,
                  poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {});

// Q x [..., m, k], where Q = H_0 H_1 ... of packed reflectors [..., m, n] and taus [..., count], count <= n,
// each with its pivot `below` places under the diagonal; for few reflectors.
poplar::Tensor applyReflectors(poplar::Graph& graph, const poplar::Tensor& packed, const poplar::Tensor& taus,
                               const poplar::Tensor& x, unsigned below, poplar::program::Sequence& prog,
                               const poplar::DebugContext& debugContext = {});

// The unsorted eigenvalues [..., n] of symmetric matrices T with diagonal d [..., n] and off-diagonal
// e [..., n - 1], and the product G rows, where G T G^T is diagonal; rows [..., n, k]. f32 or f64, by the
// implicit QR algorithm. NaN where it does not converge.
std::vector<poplar::Tensor> tridiagonalQr(poplar::Graph& graph, const poplar::Tensor& d,
                                          const poplar::Tensor& e, const std::vector<poplar::Tensor>& rows,
                                          poplar::program::Sequence& prog,
                                          const poplar::DebugContext& debugContext = {});

// The unsorted singular values [..., n] of matrices B with diagonal d [..., n] and superdiagonal
// e [..., n - 1]; for rows = {left, right} also L left and R right, where L B R^T is diagonal. Otherwise as
// tridiagonalQr.
std::vector<poplar::Tensor> bidiagonalQr(poplar::Graph& graph, const poplar::Tensor& d,
                                         const poplar::Tensor& e, const std::vector<poplar::Tensor>& rows,
                                         poplar::program::Sequence& prog,
                                         const poplar::DebugContext& debugContext = {});

// The Schur form of small matrices a [..., n, n] of at most kMostSchurRows rows, f32, f64, c64 or c128, by
// the QR algorithm: {T} or, with `vectors`, {T, Z} with a = Z T Z^-1. T is triangular; that of real matrices
// has 2 x 2 blocks ((x, b), (c, x)), b c < 0, for pairs of eigenvalues. Z is unitary; with `balanced` it also
// has the powers of two by which rows and columns are scaled first. NaN where a is not finite or the
// algorithm does not converge.
std::vector<poplar::Tensor> schur(poplar::Graph& graph, const poplar::Tensor& a, bool balanced, bool vectors,
                                  poplar::program::Sequence& prog,
                                  const poplar::DebugContext& debugContext = {});

}  // namespace hlo

#endif  // HLO_LINEARALGEBRA_HPP
