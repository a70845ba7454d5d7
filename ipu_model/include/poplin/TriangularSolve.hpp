// Systems of equations with a triangular matrix.
#ifndef POPLIN_TRIANGULARSOLVE_HPP
#define POPLIN_TRIANGULARSOLVE_HPP

#include "kernels/linear_algebra/linear_algebra.h"
#include "poplar/Graph.hpp"

namespace poplin {

// X with a X = b (leftSide) or X a = b: a [..., m, m], of which one triangle is read. f32, f64, c64, c128.
poplar::Tensor triangularSolve(poplar::Graph& graph, const poplar::Tensor& a, const poplar::Tensor& b,
                               bool leftSide, bool lower, bool unitDiagonal, poplar::program::Sequence& prog,
                               const poplar::DebugContext& debugContext = {});

}  // namespace poplin

namespace hlo {

// The same with the transpose or adjoint of a.
poplar::Tensor triangularSolve(poplar::Graph& graph, const poplar::Tensor& a, const poplar::Tensor& b,
                               const ipu_model::TriangularOptions& options, poplar::program::Sequence& prog,
                               const poplar::DebugContext& debugContext = {});

}  // namespace hlo

#endif  // POPLIN_TRIANGULARSOLVE_HPP
