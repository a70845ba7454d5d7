// Python: reductions over dimensions.
//
//   reduce(graph, tensors, inits, dims, expression, seq, name="", unrounded=False) -> list[Tensor]
//     expression: inputs acc_0.., value_0.., one output per tensor
//     unrounded: the results of sums and products of narrow floats are f32
#include "hlo/Reduce.hpp"

#include "bindings/bindings.h"

namespace jax_ipu::bindings {
namespace {

using hlo::Expression;
using poplar::Graph;
using poplar::Tensor;
using poplar::program::Sequence;

std::vector<Tensor> Reduce(Graph& graph, const std::vector<Tensor>& tensors, const std::vector<Tensor>& inits,
                           const std::vector<std::size_t>& dims, const Expression& expression,
                           Sequence& sequence, const std::string& name, bool unrounded) {
  return hlo::reduce(graph, tensors, inits, dims, expression, sequence, name, unrounded);
}

}  // namespace

void BindReduce(nb::module_& module) {
  module.def("reduce", Reduce, nb::arg("graph"), nb::arg("tensors"), nb::arg("inits"), nb::arg("dims"),
             nb::arg("expression"), nb::arg("seq"), nb::arg("name") = "", nb::arg("unrounded") = false);
}

}  // namespace jax_ipu::bindings
