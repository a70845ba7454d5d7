// Cholesky factorisation. Source: PopLibs, include/poplin/Cholesky.hpp.
#ifndef POPLIN_CHOLESKY_HPP
#define POPLIN_CHOLESKY_HPP

#include "poplar/Graph.hpp"

namespace poplin {

// Returns L with L L^H = a (lower), or U with U^H U = a, for a [..., n, n]. Reads one triangle of a; the
// other triangle of the result is zero. A matrix that is not positive definite gives NaN everywhere. f32,
// f64, c64, c128. Throws poplar::poplar_error when shapes or types do not fit.
poplar::Tensor cholesky(poplar::Graph& graph, const poplar::Tensor& a, bool lower,
                        poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {});

}  // namespace poplin

#endif  // POPLIN_CHOLESKY_HPP
