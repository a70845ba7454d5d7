// Python: decompositions and triangular systems.
//
//   cholesky(graph, a, lower, seq, name="") -> Tensor
//   triangular_solve(graph, a, b, left_side, lower, unit_diagonal, transpose_a, seq, name="") -> Tensor
//     transpose_a "NO_TRANSPOSE", "TRANSPOSE" or "ADJOINT"
//   lu_panel(graph, a, seq, name="") -> [factors, pivots, order]
//   qr_panel(graph, a, seq, name="") -> [packed, taus]
//   two_sided(graph, form, a, seq, name="") -> [packed, taus], for "bidiagonal" also row reflectors, their
//   taus
//     form "hessenberg", "tridiagonal" or "bidiagonal"
//   apply_reflectors(graph, packed, taus, x, below, seq, name="") -> Tensor
//   schur(graph, a, balanced, vectors, seq, name="") -> [t], with vectors [t, z]
//   implicit_qr(graph, bidiagonal, operands, seq, name="") -> [values, *matrices]
//     operands [d, e, *matrices]
#include <stdexcept>
#include <utility>

#include "bindings/bindings.h"
#include "hlo/LinearAlgebra.hpp"
#include "poplin/Cholesky.hpp"

namespace jax_ipu::bindings {
namespace {

using poplar::Graph;
using poplar::Tensor;
using poplar::program::Sequence;

Tensor Cholesky(Graph& graph, const Tensor& a, bool lower, Sequence& sequence, const std::string& name) {
  return poplin::cholesky(graph, a, lower, sequence, name);
}

Tensor TriangularSolve(Graph& graph, const Tensor& a, const Tensor& b, bool left_side, bool lower,
                       bool unit_diagonal, const std::string& transpose_a, Sequence& sequence,
                       const std::string& name) {
  using hlo::Transpose;
  if (transpose_a != "NO_TRANSPOSE" && transpose_a != "TRANSPOSE" && transpose_a != "ADJOINT") {
    throw std::invalid_argument("unknown transpose '" + transpose_a + "'");
  }
  const Transpose transpose = transpose_a == "ADJOINT"     ? Transpose::kAdjoint
                              : transpose_a == "TRANSPOSE" ? Transpose::kTranspose
                                                           : Transpose::kNone;
  return hlo::triangularSolve(graph, a, b, {left_side, lower, unit_diagonal, transpose}, sequence, name);
}

std::vector<Tensor> LuPanel(Graph& graph, const Tensor& a, Sequence& sequence, const std::string& name) {
  hlo::LuPanel result = hlo::luPanel(graph, a, sequence, name);
  return {std::move(result.factors), std::move(result.pivots), std::move(result.order)};
}

std::vector<Tensor> QrPanel(Graph& graph, const Tensor& a, Sequence& sequence, const std::string& name) {
  hlo::QrPanel result = hlo::qrPanel(graph, a, sequence, name);
  return {std::move(result.packed), std::move(result.taus)};
}

std::vector<Tensor> TwoSided(Graph& graph, const std::string& form, const Tensor& a, Sequence& sequence,
                             const std::string& name) {
  using hlo::TwoSidedForm;
  if (form != "hessenberg" && form != "tridiagonal" && form != "bidiagonal")
    throw std::invalid_argument("unknown form '" + form + "'");
  const TwoSidedForm to = form == "hessenberg"    ? TwoSidedForm::kHessenberg
                          : form == "tridiagonal" ? TwoSidedForm::kTridiagonal
                                                  : TwoSidedForm::kBidiagonal;
  hlo::TwoSided result = hlo::twoSided(graph, to, a, sequence, name);
  std::vector<Tensor> tensors = {std::move(result.packed), std::move(result.taus)};
  if (to == TwoSidedForm::kBidiagonal) {
    tensors.push_back(std::move(result.rowReflectors));
    tensors.push_back(std::move(result.rowTaus));
  }
  return tensors;
}

Tensor ApplyReflectors(Graph& graph, const Tensor& packed, const Tensor& taus, const Tensor& x,
                       unsigned below, Sequence& sequence, const std::string& name) {
  return hlo::applyReflectors(graph, packed, taus, x, below, sequence, name);
}

std::vector<Tensor> Schur(Graph& graph, const Tensor& a, bool balanced, bool vectors, Sequence& sequence,
                          const std::string& name) {
  return hlo::schur(graph, a, balanced, vectors, sequence, name);
}

std::vector<Tensor> ImplicitQr(Graph& graph, bool bidiagonal, const std::vector<Tensor>& operands,
                               Sequence& sequence, const std::string& name) {
  if (operands.size() < 2) throw std::invalid_argument("the implicit QR algorithm needs two vectors");
  const std::vector<Tensor> matrices(operands.begin() + 2, operands.end());
  return (bidiagonal ? hlo::bidiagonalQr : hlo::tridiagonalQr)(graph, operands[0], operands[1], matrices,
                                                               sequence, name);
}

}  // namespace

void BindLinearAlgebra(nb::module_& module) {
  module.def("cholesky", Cholesky, nb::arg("graph"), nb::arg("a"), nb::arg("lower"), nb::arg("seq"),
             nb::arg("name") = "");
  module.def("triangular_solve", TriangularSolve, nb::arg("graph"), nb::arg("a"), nb::arg("b"),
             nb::arg("left_side"), nb::arg("lower"), nb::arg("unit_diagonal"), nb::arg("transpose_a"),
             nb::arg("seq"), nb::arg("name") = "");
  module.def("lu_panel", LuPanel, nb::arg("graph"), nb::arg("a"), nb::arg("seq"), nb::arg("name") = "");
  module.def("qr_panel", QrPanel, nb::arg("graph"), nb::arg("a"), nb::arg("seq"), nb::arg("name") = "");
  module.def("two_sided", TwoSided, nb::arg("graph"), nb::arg("form"), nb::arg("a"), nb::arg("seq"),
             nb::arg("name") = "");
  module.def("apply_reflectors", ApplyReflectors, nb::arg("graph"), nb::arg("packed"), nb::arg("taus"),
             nb::arg("x"), nb::arg("below"), nb::arg("seq"), nb::arg("name") = "");
  module.def("schur", Schur, nb::arg("graph"), nb::arg("a"), nb::arg("balanced"), nb::arg("vectors"),
             nb::arg("seq"), nb::arg("name") = "");
  module.def("implicit_qr", ImplicitQr, nb::arg("graph"), nb::arg("bidiagonal"), nb::arg("operands"),
             nb::arg("seq"), nb::arg("name") = "");
}

}  // namespace jax_ipu::bindings
