// The Python extension module that tools/build_poplibs puts into its folder: operations of Graphcore's
// PopLibs, on the graphs, tensors and sequences of jax_ipu._ipu. It has PopLibs inside, and Poplar from
// libpjrt_ipu.so.
//
//   why_not(expression) -> str                      "" where popops::map computes it
//   map(graph, expression, tensors, outs, seq, name) -> list[Tensor]
//   iota(graph, numbers, dtype, seq, name) -> Tensor
//     counts up in `numbers`, s32 or u32 [n]; returns them, or a cast to the dtype
// and those of the other files.
#include <optional>
#include <poplin/codelets.hpp>
#include <popops/Cast.hpp>
#include <popops/Encoding.hpp>
#include <popops/codelets.hpp>
#include <string>
#include <vector>

#include "poplibs/bindings.h"
#include "poplibs/expression.h"

namespace jax_ipu::poplibs {

poplar::Type TypeNamed(const std::string& name) {
  static const std::map<std::string, poplar::Type> table = {{"f32", poplar::FLOAT},
                                                            {"f16", poplar::HALF},
                                                            {"s32", poplar::INT},
                                                            {"u32", poplar::UNSIGNED_INT},
                                                            {"pred", poplar::BOOL}};
  const auto found = table.find(name);
  if (found == table.end()) throw Lacks("PopLibs has no vertices for " + name);
  return found->second;
}

poplar::OptionFlags FlagsOf(const Options& options) {
  poplar::OptionFlags flags;
  for (const auto& [name, value] : options) flags.set(name, value);
  return flags;
}

namespace {

void AddCodelets(Graph& graph) {
  popops::addCodelets(graph);
  poplin::addCodelets(graph);
}

std::vector<Tensor> MapExpression(Graph& graph, const hlo::Expression& expression,
                                  const std::vector<Tensor>& tensors,
                                  const std::vector<std::optional<Tensor>>& outs, Sequence& sequence,
                                  const std::string& name) {
  std::vector<const Tensor*> given;
  for (const auto& out : outs) given.push_back(out ? &*out : nullptr);
  return Map(graph, expression, tensors, given, sequence, name);
}

Tensor Iota(Graph& graph, const Tensor& numbers, const std::string& dtype, Sequence& sequence,
            const std::string& name) {
  if (numbers.elementType() == poplar::INT) {
    popops::iota(graph, numbers, 0, sequence, name);
  } else {
    popops::iota(graph, numbers, 0u, sequence, name);
  }
  const poplar::Type type = TypeNamed(dtype);
  return type == numbers.elementType() ? numbers : popops::cast(graph, numbers, type, sequence, name);
}

}  // namespace
}  // namespace jax_ipu::poplibs

NB_MODULE(_poplibs, module) {
  using namespace jax_ipu::poplibs;
  nb::set_leak_warnings(false);
  nb::class_<PlanningCache>(module, "PlanningCache").def(nb::init<>());
  nb::exception<Lacks>(module, "Lacks", PyExc_RuntimeError);
  module.def("add_codelets", &AddCodelets);
  module.def("why_not", &WhyNot);
  module.def("map", &MapExpression, nb::arg("graph"), nb::arg("expression"), nb::arg("tensors"),
             nb::arg("outs"), nb::arg("seq"), nb::arg("name"));
  module.def("iota", &Iota);
  BindConvolution(module);
  BindIndex(module);
  BindLinearAlgebra(module);
  BindPooling(module);
  BindProduct(module);
  BindReduction(module);
  BindScatter(module);
  BindTopK(module);
}
