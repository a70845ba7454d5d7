// Python: slicing, indexing and ordering.
//
//   dynamic_slice(graph, operand, starts: list[Tensor], sizes: list[int], seq, name="") -> Tensor
//   dynamic_update_slice(graph, operand, update, starts: list[Tensor], seq, name="", in_place=False) ->
//   Tensor gather(graph, operand, indices, offset_dims, collapsed_slice_dims, operand_batching_dims,
//          indices_batching_dims, start_index_map, index_vector_dim, wraps, slice_sizes, seq, name="") ->
//          Tensor
//   create_gather_input(graph, dtype, shape, indices_shape, offset_dims, collapsed_slice_dims,
//                       operand_batching_dims, indices_batching_dims, start_index_map, index_vector_dim,
//                       slice_sizes, name="") -> Tensor
//   scatter(graph, operands: list[Tensor], indices, updates: list[Tensor], update_window_dims,
//           inserted_window_dims, operand_batching_dims, indices_batching_dims, scatter_dims_to_operand_dims,
//           index_vector_dim, wraps, unique_indices, expression, seq, name="", in_place=False) ->
//           list[Tensor]
//     expression: inputs operand_0.., update_0.., one output per operand
//     wraps: what is added to negative indices, per component of the index vectors; empty for nothing
//   sort(graph, operands: list[Tensor], dim, comparator, stable, seq, name="") -> list[Tensor]
//     comparator: inputs a_0, b_0, a_1, b_1, ..; the sort is stable also when not asked to be
//   top_k(graph, operand, k, seq, name="", largest=True) -> (values, indices)
//     along the last dimension, indices s32; IEEE total order, the lower position first among equals
//   create_sliceable_tensor(graph, dtype, shape, dims, sizes, name="") -> Tensor
//   rng_bit_generator(graph, algorithm, state, dtype, shape, seq, name="") -> (new_state, bits)
//     algorithm "THREE_FRY", "PHILOX" or "DEFAULT" (Philox, as XLA:CPU); state 1-D, 16 bytes (24: Philox
//     only)
//   cholesky(graph, a, lower, seq, name="") -> Tensor
//   triangular_solve(graph, a, b, left_side, lower, unit_diagonal, transpose_a, seq, name="") -> Tensor
//     transpose_a "NO_TRANSPOSE", "TRANSPOSE" or "ADJOINT"
//   lu_panel(graph, a, seq, name="") -> [factors, pivots, order]
//   implicit_qr(graph, bidiagonal, operands, seq, name="") -> [values, *matrices]
//     operands [d, e, *matrices]
//   fft(graph, operand, type, lengths, seq, name="") -> Tensor    type "FFT", "IFFT", "RFFT" or "IRFFT"
//
// In place: the (first) operands are written over and returned; they must be strided views without aliases.
#include "hlo/Data.hpp"

#include "bindings/bindings.h"
#include "hlo/Fft.hpp"
#include "hlo/LinearAlgebra.hpp"
#include "hlo/Random.hpp"
#include "poplin/Cholesky.hpp"
#include "poplin/TriangularSolve.hpp"
#include "popops/DynamicSlice.hpp"

namespace jax_ipu::bindings {
namespace {

using ipu_model::Expression;
using ipu_model::WindowDims;
using poplar::Graph;
using poplar::Tensor;
using poplar::program::Sequence;
using Dims = std::vector<std::int64_t>;
using Sizes = std::vector<std::size_t>;

Tensor DynamicSlice(Graph& graph, const Tensor& operand, const std::vector<Tensor>& starts,
                    const Sizes& sizes, Sequence& sequence, const std::string& name) {
  return hlo::dynamicSlice(graph, operand, starts, sizes, sequence, name);
}

Tensor DynamicUpdateSlice(Graph& graph, const Tensor& operand, const Tensor& update,
                          const std::vector<Tensor>& starts, Sequence& sequence, const std::string& name,
                          bool in_place) {
  return hlo::dynamicUpdateSlice(graph, operand, update, starts, sequence, in_place, name);
}

Tensor Gather(Graph& graph, const Tensor& operand, const Tensor& indices, const Dims& offset_dims,
              const Dims& collapsed_slice_dims, const Dims& operand_batching_dims,
              const Dims& indices_batching_dims, const Dims& start_index_map, std::int64_t index_vector_dim,
              const Dims& wraps, const Sizes& slice_sizes, Sequence& sequence, const std::string& name) {
  const WindowDims dims{offset_dims,
                        collapsed_slice_dims,
                        operand_batching_dims,
                        indices_batching_dims,
                        start_index_map,
                        index_vector_dim,
                        wraps};
  return hlo::gather(graph, operand, indices, dims, slice_sizes, sequence, name);
}

Tensor CreateGatherInput(Graph& graph, const std::string& dtype, const Sizes& shape,
                         const Sizes& indices_shape, const Dims& offset_dims,
                         const Dims& collapsed_slice_dims, const Dims& operand_batching_dims,
                         const Dims& indices_batching_dims, const Dims& start_index_map,
                         std::int64_t index_vector_dim, const Sizes& slice_sizes, const std::string& name) {
  const WindowDims dims{offset_dims,
                        collapsed_slice_dims,
                        operand_batching_dims,
                        indices_batching_dims,
                        start_index_map,
                        index_vector_dim,
                        {}};
  return hlo::createGatherInput(graph, TypeNamed(dtype), shape, indices_shape, dims, slice_sizes, name);
}

std::vector<Tensor> Scatter(Graph& graph, const std::vector<Tensor>& operands, const Tensor& indices,
                            const std::vector<Tensor>& updates, const Dims& update_window_dims,
                            const Dims& inserted_window_dims, const Dims& operand_batching_dims,
                            const Dims& indices_batching_dims, const Dims& scatter_dims_to_operand_dims,
                            std::int64_t index_vector_dim, const Dims& wraps, bool unique_indices,
                            const Expression& expression, Sequence& sequence, const std::string& name,
                            bool in_place) {
  const WindowDims dims{update_window_dims,
                        inserted_window_dims,
                        operand_batching_dims,
                        indices_batching_dims,
                        scatter_dims_to_operand_dims,
                        index_vector_dim,
                        wraps};
  return hlo::scatter(graph, operands, indices, updates, dims, unique_indices, expression, sequence, in_place,
                      name);
}

std::vector<Tensor> Sort(Graph& graph, const std::vector<Tensor>& operands, std::size_t dim,
                         const Expression& comparator, bool /*stable*/, Sequence& sequence,
                         const std::string& name) {
  return hlo::sort(graph, operands, dim, comparator, sequence, name);
}

std::pair<Tensor, Tensor> TopK(Graph& graph, const Tensor& operand, std::size_t k, Sequence& sequence,
                               const std::string& name, bool largest) {
  return hlo::topK(graph, operand, k, sequence, largest, name);
}

std::pair<Tensor, Tensor> RngBitGenerator(Graph& graph, const std::string& algorithm, const Tensor& state,
                                          const std::string& dtype, const Sizes& shape, Sequence& sequence,
                                          const std::string& name) {
  using ipu_model::RandomAlgorithm;
  if (algorithm != "THREE_FRY" && algorithm != "PHILOX" && algorithm != "DEFAULT") {
    throw std::invalid_argument("unknown random algorithm '" + algorithm + "'");
  }
  return hlo::rngBitGenerator(
      graph, algorithm == "THREE_FRY" ? RandomAlgorithm::kThreeFry : RandomAlgorithm::kPhilox, state,
      TypeNamed(dtype), shape, sequence, name);
}

Tensor Cholesky(Graph& graph, const Tensor& a, bool lower, Sequence& sequence, const std::string& name) {
  return poplin::cholesky(graph, a, lower, sequence, name);
}

Tensor TriangularSolve(Graph& graph, const Tensor& a, const Tensor& b, bool left_side, bool lower,
                       bool unit_diagonal, const std::string& transpose_a, Sequence& sequence,
                       const std::string& name) {
  using ipu_model::Transpose;
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

std::vector<Tensor> ImplicitQr(Graph& graph, bool bidiagonal, const std::vector<Tensor>& operands,
                               Sequence& sequence, const std::string& name) {
  if (operands.size() < 2) throw std::invalid_argument("the implicit QR algorithm needs two vectors");
  const std::vector<Tensor> matrices(operands.begin() + 2, operands.end());
  return (bidiagonal ? hlo::bidiagonalQr : hlo::tridiagonalQr)(graph, operands[0], operands[1], matrices,
                                                               sequence, name);
}

Tensor Fft(Graph& graph, const Tensor& operand, const std::string& type, const Sizes& lengths,
           Sequence& sequence, const std::string& name) {
  const std::map<std::string, hlo::FftType> types = {{"FFT", hlo::FftType::kFft},
                                                     {"IFFT", hlo::FftType::kIfft},
                                                     {"RFFT", hlo::FftType::kRfft},
                                                     {"IRFFT", hlo::FftType::kIrfft}};
  const auto found = types.find(type);
  if (found == types.end()) throw std::invalid_argument("unknown fft type '" + type + "'");
  return hlo::fft(graph, operand, found->second, lengths, sequence, name);
}

Tensor CreateSliceableTensor(Graph& graph, const std::string& dtype, const Sizes& shape, const Sizes& dims,
                             const Sizes& sizes, const std::string& name) {
  return popops::createSliceableTensor(graph, TypeNamed(dtype), shape, dims, sizes, 0, name);
}

}  // namespace

void BindData(nb::module_& module) {
  module.def("dynamic_slice", DynamicSlice, nb::arg("graph"), nb::arg("operand"), nb::arg("starts"),
             nb::arg("sizes"), nb::arg("seq"), nb::arg("name") = "");
  module.def("dynamic_update_slice", DynamicUpdateSlice, nb::arg("graph"), nb::arg("operand"),
             nb::arg("update"), nb::arg("starts"), nb::arg("seq"), nb::arg("name") = "",
             nb::arg("in_place") = false);
  module.def("gather", Gather, nb::arg("graph"), nb::arg("operand"), nb::arg("indices"),
             nb::arg("offset_dims"), nb::arg("collapsed_slice_dims"), nb::arg("operand_batching_dims"),
             nb::arg("indices_batching_dims"), nb::arg("start_index_map"), nb::arg("index_vector_dim"),
             nb::arg("wraps"), nb::arg("slice_sizes"), nb::arg("seq"), nb::arg("name") = "");
  module.def("create_gather_input", CreateGatherInput, nb::arg("graph"), nb::arg("dtype"), nb::arg("shape"),
             nb::arg("indices_shape"), nb::arg("offset_dims"), nb::arg("collapsed_slice_dims"),
             nb::arg("operand_batching_dims"), nb::arg("indices_batching_dims"), nb::arg("start_index_map"),
             nb::arg("index_vector_dim"), nb::arg("slice_sizes"), nb::arg("name") = "");
  module.def("scatter", Scatter, nb::arg("graph"), nb::arg("operands"), nb::arg("indices"),
             nb::arg("updates"), nb::arg("update_window_dims"), nb::arg("inserted_window_dims"),
             nb::arg("operand_batching_dims"), nb::arg("indices_batching_dims"),
             nb::arg("scatter_dims_to_operand_dims"), nb::arg("index_vector_dim"), nb::arg("wraps"),
             nb::arg("unique_indices"), nb::arg("expression"), nb::arg("seq"), nb::arg("name") = "",
             nb::arg("in_place") = false);
  module.def("sort", Sort, nb::arg("graph"), nb::arg("operands"), nb::arg("dim"), nb::arg("comparator"),
             nb::arg("stable"), nb::arg("seq"), nb::arg("name") = "");
  module.def("top_k", TopK, nb::arg("graph"), nb::arg("operand"), nb::arg("k"), nb::arg("seq"),
             nb::arg("name") = "", nb::arg("largest") = true);
  module.def("rng_bit_generator", RngBitGenerator, nb::arg("graph"), nb::arg("algorithm"), nb::arg("state"),
             nb::arg("dtype"), nb::arg("shape"), nb::arg("seq"), nb::arg("name") = "");
  module.def("cholesky", Cholesky, nb::arg("graph"), nb::arg("a"), nb::arg("lower"), nb::arg("seq"),
             nb::arg("name") = "");
  module.def("triangular_solve", TriangularSolve, nb::arg("graph"), nb::arg("a"), nb::arg("b"),
             nb::arg("left_side"), nb::arg("lower"), nb::arg("unit_diagonal"), nb::arg("transpose_a"),
             nb::arg("seq"), nb::arg("name") = "");
  module.def("lu_panel", LuPanel, nb::arg("graph"), nb::arg("a"), nb::arg("seq"), nb::arg("name") = "");
  module.def("implicit_qr", ImplicitQr, nb::arg("graph"), nb::arg("bidiagonal"), nb::arg("operands"),
             nb::arg("seq"), nb::arg("name") = "");
  module.def("fft", Fft, nb::arg("graph"), nb::arg("operand"), nb::arg("type"), nb::arg("lengths"),
             nb::arg("seq"), nb::arg("name") = "");
  module.def("create_sliceable_tensor", CreateSliceableTensor, nb::arg("graph"), nb::arg("dtype"),
             nb::arg("shape"), nb::arg("dims"), nb::arg("sizes"), nb::arg("name") = "");
}

}  // namespace jax_ipu::bindings
