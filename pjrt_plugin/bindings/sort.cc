// Python: sorting.
//
//   sort(graph, operands: list[Tensor], dim, comparator, stable, seq, name="") -> list[Tensor]
//     comparator: inputs a_0, b_0, a_1, b_1, ..; the sort is stable also when not asked to be
//   sort_with_positions(graph, operands, dim, comparator, seq, name="") -> list[Tensor]
//     also the positions of the elements before, s32
//   create_sort_operand(graph, dtypes, number, shape, dim, comparator, positions, name="") -> Tensor
//     a variable that operand `number` can lie in, so that sort_in_place needs no copy of it
//   sort_in_place(graph, operands, dim, comparator, positions, seq, name="") -> list[Tensor]
//     the positions of the elements before, s32, if asked for
//   top_k(graph, operand, k, seq, name="", largest=True) -> (values, indices)
//     along the last dimension, indices s32; IEEE total order, the lower position first among equals
#include "hlo/Sort.hpp"

#include "bindings/bindings.h"

namespace jax_ipu::bindings {
namespace {

using hlo::Expression;
using poplar::Graph;
using poplar::Tensor;
using poplar::program::Sequence;

std::vector<Tensor> Sort(Graph& graph, const std::vector<Tensor>& operands, std::size_t dim,
                         const Expression& comparator, bool /*stable*/, Sequence& sequence,
                         const std::string& name) {
  return hlo::sort(graph, operands, dim, comparator, sequence, name);
}

std::vector<Tensor> SortWithPositions(Graph& graph, const std::vector<Tensor>& operands, std::size_t dim,
                                      const Expression& comparator, Sequence& sequence,
                                      const std::string& name) {
  return hlo::sortWithPositions(graph, operands, dim, comparator, sequence, name);
}

Tensor CreateSortOperand(Graph& graph, const std::vector<std::string>& dtypes, std::size_t number,
                         const std::vector<std::size_t>& shape, std::size_t dim, const Expression& comparator,
                         bool positions, const std::string& name) {
  std::vector<poplar::Type> types;
  for (const std::string& dtype : dtypes) types.push_back(TypeNamed(dtype));
  return hlo::createSortOperand(graph, types, number, shape, dim, comparator, positions, name);
}

std::vector<Tensor> SortInPlace(Graph& graph, const std::vector<Tensor>& operands, std::size_t dim,
                                const Expression& comparator, bool positions, Sequence& sequence,
                                const std::string& name) {
  return hlo::sortInPlace(graph, operands, dim, comparator, positions, sequence, name);
}

std::pair<Tensor, Tensor> TopK(Graph& graph, const Tensor& operand, std::size_t k, Sequence& sequence,
                               const std::string& name, bool largest) {
  return hlo::topK(graph, operand, k, sequence, largest, name);
}

}  // namespace

void BindSort(nb::module_& module) {
  module.def("sort", Sort, nb::arg("graph"), nb::arg("operands"), nb::arg("dim"), nb::arg("comparator"),
             nb::arg("stable"), nb::arg("seq"), nb::arg("name") = "");
  module.def("sort_with_positions", SortWithPositions, nb::arg("graph"), nb::arg("operands"), nb::arg("dim"),
             nb::arg("comparator"), nb::arg("seq"), nb::arg("name") = "");
  module.def("create_sort_operand", CreateSortOperand, nb::arg("graph"), nb::arg("dtypes"), nb::arg("number"),
             nb::arg("shape"), nb::arg("dim"), nb::arg("comparator"), nb::arg("positions"),
             nb::arg("name") = "");
  module.def("sort_in_place", SortInPlace, nb::arg("graph"), nb::arg("operands"), nb::arg("dim"),
             nb::arg("comparator"), nb::arg("positions"), nb::arg("seq"), nb::arg("name") = "");
  module.def("top_k", TopK, nb::arg("graph"), nb::arg("operand"), nb::arg("k"), nb::arg("seq"),
             nb::arg("name") = "", nb::arg("largest") = true);
}

}  // namespace jax_ipu::bindings
