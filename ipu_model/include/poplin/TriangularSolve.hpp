// Systems of equations with a triangular matrix. The transposed forms are in hlo/LinearAlgebra.hpp.
#ifndef POPLIN_TRIANGULARSOLVE_HPP
#define POPLIN_TRIANGULARSOLVE_HPP

#include "poplar/Graph.hpp"

namespace poplin {

// X [..., m, n] with a X = b (leftSide), or X [..., n, m] with X a = b: a is [..., m, m], of which the lower
// or the upper triangle is read; with unitDiagonal its diagonal counts as ones. a and b have one of the types
// f32, f64, c64, c128. A zero on the diagonal gives infinities and NaNs. Throws poplar::poplar_error when
// shapes or types do not fit.
poplar::Tensor triangularSolve(poplar::Graph& graph, const poplar::Tensor& a, const poplar::Tensor& b,
                               bool leftSide, bool lower, bool unitDiagonal, poplar::program::Sequence& prog,
                               const poplar::DebugContext& debugContext = {});

}  // namespace poplin

#endif  // POPLIN_TRIANGULARSOLVE_HPP
