// Cholesky factorisation. Source: PopLibs, include/poplin/Cholesky.hpp.
#ifndef POPLIN_CHOLESKY_HPP
#define POPLIN_CHOLESKY_HPP

#include "poplar/Graph.hpp"

namespace poplin {

// L (lower) with L L^H = a, or U with U^H U = a, for a [..., n, n], of which one triangle is read; the other
// of the result is zero. NaN everywhere when a matrix is not positive definite. f32, f64, c64, c128.
// Throws poplar::poplar_error when shapes or types do not fit.
poplar::Tensor cholesky(poplar::Graph& graph, const poplar::Tensor& a, bool lower,
                        poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {});

}  // namespace poplin

#endif  // POPLIN_CHOLESKY_HPP
