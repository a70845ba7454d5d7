// Python: slices, gather and scatter at run-time positions.
//
//   dynamic_slice(graph, operand, starts: list[Tensor], sizes: list[int], seq, name="") -> Tensor
//   dynamic_update_slice(graph, operand, update, starts: list[Tensor], seq, name="",
//                        in_place=False) -> Tensor
//   gather(graph, operand, indices, offset_dims, collapsed_slice_dims, operand_batching_dims,
//          indices_batching_dims, start_index_map, index_vector_dim, wraps, slice_sizes, seq,
//          name="") -> Tensor
//   create_gather_input(graph, dtype, shape, indices_shape, offset_dims, collapsed_slice_dims,
//                       operand_batching_dims, indices_batching_dims, start_index_map, index_vector_dim,
//                       slice_sizes, name="") -> Tensor
//   scatter(graph, operands: list[Tensor], indices, updates: list[Tensor], update_window_dims,
//           inserted_window_dims, operand_batching_dims, indices_batching_dims, scatter_dims_to_operand_dims,
//           index_vector_dim, wraps, unique_indices, expression, seq, name="",
//           in_place=False) -> list[Tensor]
//     expression: inputs operand_0.., update_0.., one output per operand
//     wraps: for each index component, the number that is added to negative indices; empty: zeros
//   create_sliceable_tensor(graph, dtype, shape, dims, sizes, name="") -> Tensor
//
// In place: the operands (of scatter: `operands`) are overwritten and returned; they must be strided views
// without aliases.
#include "hlo/Index.hpp"

#include "bindings/bindings.h"
#include "popops/DynamicSlice.hpp"

namespace jax_ipu::bindings {
namespace {

using hlo::Expression;
using hlo::WindowDims;
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
                         std::int64_t index_vector_dim, const Sizes& slice_sizes, const std::string& name,
                         bool has_passes) {
  const WindowDims dims{offset_dims,
                        collapsed_slice_dims,
                        operand_batching_dims,
                        indices_batching_dims,
                        start_index_map,
                        index_vector_dim,
                        {}};
  return hlo::createGatherInput(graph, TypeNamed(dtype), shape, indices_shape, dims, slice_sizes, name,
                                has_passes);
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

Tensor CreateSliceableTensor(Graph& graph, const std::string& dtype, const Sizes& shape, const Sizes& dims,
                             const Sizes& sizes, const std::string& name) {
  return popops::createSliceableTensor(graph, TypeNamed(dtype), shape, dims, sizes, 0, name);
}

}  // namespace

void BindIndex(nb::module_& module) {
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
             nb::arg("index_vector_dim"), nb::arg("slice_sizes"), nb::arg("name") = "",
             nb::arg("has_passes") = true);
  module.def("scatter", Scatter, nb::arg("graph"), nb::arg("operands"), nb::arg("indices"),
             nb::arg("updates"), nb::arg("update_window_dims"), nb::arg("inserted_window_dims"),
             nb::arg("operand_batching_dims"), nb::arg("indices_batching_dims"),
             nb::arg("scatter_dims_to_operand_dims"), nb::arg("index_vector_dim"), nb::arg("wraps"),
             nb::arg("unique_indices"), nb::arg("expression"), nb::arg("seq"), nb::arg("name") = "",
             nb::arg("in_place") = false);
  module.def("create_sliceable_tensor", CreateSliceableTensor, nb::arg("graph"), nb::arg("dtype"),
             nb::arg("shape"), nb::arg("dims"), nb::arg("sizes"), nb::arg("name") = "");
}

}  // namespace jax_ipu::bindings
