// Python: elementwise programs, fills and reductions.
#include "hlo/Elementwise.hpp"

#include <nanobind/stl/optional.h>

#include <optional>

#include "bindings/bindings.h"
#include "hlo/Fill.hpp"
#include "hlo/Reduce.hpp"

namespace jax_ipu::bindings {
namespace {

using ipu_model::Expression;
using poplar::Graph;
using poplar::Tensor;
using poplar::program::Sequence;

Tensor Map(Graph& graph, const Expression& expression, const std::vector<Tensor>& tensors, Sequence& sequence,
           const std::string& name) {
  return hlo::map(graph, expression, tensors, {Tensor()}, sequence, name).at(0);
}

void MapWithOutput(Graph& graph, const Expression& expression, const std::vector<Tensor>& tensors,
                   const Tensor& out, Sequence& sequence, const std::string& name) {
  hlo::map(graph, expression, tensors, {out}, sequence, name);
}

void MapInPlace(Graph& graph, const Expression& expression, const std::vector<Tensor>& tensors,
                Sequence& sequence, const std::string& name) {
  hlo::map(graph, expression, tensors, {tensors.at(0)}, sequence, name);
}

std::vector<Tensor> MapMultiple(Graph& graph, const Expression& expression,
                                const std::vector<Tensor>& tensors,
                                const std::vector<std::optional<Tensor>>& outs, Sequence& sequence,
                                const std::string& name) {
  std::vector<Tensor> outputs;
  for (const auto& out : outs) outputs.push_back(out.value_or(Tensor()));
  return hlo::map(graph, expression, tensors, outputs, sequence, name);
}

void Fill(Graph& graph, const Tensor& tensor, const nb::bytes& value, Sequence& sequence,
          const std::string& name) {
  hlo::fill(graph, tensor, std::string(value.c_str(), value.size()), sequence, name);
}

void Iota(Graph& graph, const Tensor& tensor, std::size_t dim, Sequence& sequence, const std::string& name) {
  hlo::iota(graph, tensor, dim, sequence, name);
}

std::vector<Tensor> Reduce(Graph& graph, const std::vector<Tensor>& tensors, const std::vector<Tensor>& inits,
                           const std::vector<std::size_t>& dims, const Expression& expression,
                           Sequence& sequence, const std::string& name) {
  return hlo::reduce(graph, tensors, inits, dims, expression, sequence, name);
}

}  // namespace

void BindElementwise(nb::module_& module) {
  module.def("map", Map, nb::arg("graph"), nb::arg("expression"), nb::arg("tensors"), nb::arg("seq"),
             nb::arg("name") = "");
  module.def("map_with_output", MapWithOutput, nb::arg("graph"), nb::arg("expression"), nb::arg("tensors"),
             nb::arg("out"), nb::arg("seq"), nb::arg("name") = "");
  module.def("map_in_place", MapInPlace, nb::arg("graph"), nb::arg("expression"), nb::arg("tensors"),
             nb::arg("seq"), nb::arg("name") = "");
  module.def("map_multiple", MapMultiple, nb::arg("graph"), nb::arg("expression"), nb::arg("tensors"),
             nb::arg("outs"), nb::arg("seq"), nb::arg("name") = "");
  module.def("fill", Fill, nb::arg("graph"), nb::arg("tensor"), nb::arg("value"), nb::arg("seq"),
             nb::arg("name") = "");
  module.def("reduce", Reduce, nb::arg("graph"), nb::arg("tensors"), nb::arg("inits"), nb::arg("dims"),
             nb::arg("expression"), nb::arg("seq"), nb::arg("name") = "");
  module.def("iota", Iota, nb::arg("graph"), nb::arg("tensor"), nb::arg("dim"), nb::arg("seq"),
             nb::arg("name") = "");
}

}  // namespace jax_ipu::bindings
