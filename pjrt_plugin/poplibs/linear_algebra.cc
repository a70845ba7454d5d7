// Python: Cholesky factors and triangular systems of poplin.
//
//   cholesky(graph, a, lower, seq, name, options, plans) -> Tensor
//   triangular_solve(graph, a, b, left_side, lower, unit_diagonal, transposed, seq, name, options, plans)
#include <poplin/Cholesky.hpp>
#include <poplin/TriangularSolve.hpp>

#include "poplibs/bindings.h"

namespace jax_ipu::poplibs {
namespace {

Tensor Cholesky(Graph& graph, const Tensor& a, bool lower, Sequence& sequence, const std::string& name,
                const Options& options, PlanningCache& plans) {
  return poplin::cholesky(graph, a, lower, sequence, name, FlagsOf(options), &plans.products);
}

Tensor TriangularSolve(Graph& graph, const Tensor& a, const Tensor& b, bool left_side, bool lower,
                       bool unit_diagonal, bool transposed, Sequence& sequence, const std::string& name,
                       const Options& options, PlanningCache& plans) {
  const unsigned rank = a.rank();
  const Tensor matrix = transposed ? a.dimRoll(rank - 1, rank - 2) : a;
  return poplin::triangularSolve(graph, matrix, b, left_side, lower != transposed, unit_diagonal, sequence,
                                 name, FlagsOf(options), &plans.products);
}

}  // namespace

void BindLinearAlgebra(nb::module_& module) {
  module.def("cholesky", &Cholesky);
  module.def("triangular_solve", &TriangularSolve);
}

}  // namespace jax_ipu::poplibs
