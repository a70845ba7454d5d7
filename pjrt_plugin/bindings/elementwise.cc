// Python: _ipu.Expression, a scalar program built from tuples, elementwise programs and fills.
#include "hlo/Elementwise.hpp"

#include <nanobind/stl/optional.h>

#include <optional>
#include <stdexcept>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "bindings/bindings.h"
#include "hlo/Cost.hpp"
#include "hlo/ScalarOps.hpp"
#include "ipu_model/Model.hpp"

namespace jax_ipu::bindings {
namespace {

using hlo::Expression;
using hlo::ScalarOp;
using poplar::Graph;
using poplar::Tensor;
using poplar::program::Sequence;

ScalarOp OpNamed(const std::string& name) {
  static const std::unordered_map<std::string_view, ScalarOp> table = [] {
    std::unordered_map<std::string_view, ScalarOp> ops;
    for (const hlo::ScalarOpRow& row : hlo::scalar_ops::kTable) ops.emplace(row.name, row.op);
    return ops;
  }();
  const auto found = table.find(name);
  if (found == table.end()) throw std::invalid_argument("unknown scalar operation '" + name + "'");
  return found->second;
}

using Constant = std::pair<std::string, nb::bytes>;
// One instruction: op, operand type, result type, three registers, immediate.
using Code = std::tuple<std::string, std::string, std::string, unsigned, unsigned, unsigned, std::uint32_t>;

hlo::Expression MakeExpression(const std::vector<std::string>& inputs, const std::vector<Constant>& constants,
                               const std::vector<Code>& code, const std::vector<unsigned>& outputs) {
  hlo::Expression expression;
  for (const std::string& type : inputs) expression.inputs.push_back(ipu_model::DTypeOf(TypeNamed(type)));
  for (const auto& [type, bytes] : constants) {
    hlo::ScalarConstant constant;
    constant.type = ipu_model::DTypeOf(TypeNamed(type));
    const std::size_t size = ipu_model::SizeOf(constant.type);
    if (bytes.size() != size)
      throw std::invalid_argument("constant of type " + type + " needs " + std::to_string(size) + " bytes");
    const char* begin = bytes.c_str();
    for (std::size_t i = 0; i < size; ++i) constant.bytes[i] = static_cast<unsigned char>(begin[i]);
    expression.constants.push_back(constant);
  }
  std::size_t registers = inputs.size() + constants.size();
  const auto check = [&registers](unsigned reg) {
    if (reg >= registers)
      throw std::invalid_argument("register " + std::to_string(reg) + " is not defined yet");
    return static_cast<std::uint16_t>(reg);
  };
  for (const auto& [op, operand_type, result_type, a, b, c, immediate] : code) {
    hlo::Instruction instruction;
    instruction.op = OpNamed(op);
    instruction.operand_type = ipu_model::DTypeOf(TypeNamed(operand_type));
    instruction.result_type = ipu_model::DTypeOf(TypeNamed(result_type));
    instruction.operand[0] = check(a);
    instruction.operand[1] = check(b);
    instruction.operand[2] = check(c);
    instruction.immediate = immediate;
    expression.code.push_back(instruction);
    ++registers;
  }
  for (unsigned output : outputs) expression.outputs.push_back(check(output));
  return expression;
}

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

std::uint64_t MapCycles(const Graph& graph, const Expression& expression, const std::vector<bool>& scalars,
                        bool in_place, std::size_t elements) {
  if (scalars.size() != expression.inputs.size())
    throw std::invalid_argument("an expression of " + std::to_string(expression.inputs.size()) +
                                " inputs, and scalars for " + std::to_string(scalars.size()));
  return hlo::MapCost(expression, {0}, scalars, in_place, {}).cycles(graph.getTarget(), {elements});
}

std::uint64_t FillCycles(const Graph& graph, const std::string& dtype, std::size_t elements) {
  return hlo::fillCycles(graph.getTarget(), ipu_model::DTypeOf(TypeNamed(dtype)), elements);
}

}  // namespace

void BindElementwise(nb::module_& module) {
  nb::class_<hlo::Expression>(module, "Expression")
      .def(
          "__init__",
          [](hlo::Expression* self, const std::vector<std::string>& inputs,
             const std::vector<Constant>& constants, const std::vector<Code>& code,
             const std::vector<unsigned>& outputs) {
            new (self) hlo::Expression(MakeExpression(inputs, constants, code, outputs));
          },
          nb::arg("inputs"), nb::arg("constants"), nb::arg("code"), nb::arg("outputs"));
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
  module.def(
      "map_cycles", MapCycles, nb::arg("graph"), nb::arg("expression"), nb::arg("scalars"),
      nb::arg("in_place"), nb::arg("elements"),
      "Cycles of one vertex of `map` with all workers. scalars: which inputs are one element for all.");
  module.def("fill_cycles", FillCycles, nb::arg("graph"), nb::arg("dtype"), nb::arg("elements"),
             "Cycles of one vertex of `fill`, with all workers.");
  module.def("iota", Iota, nb::arg("graph"), nb::arg("tensor"), nb::arg("dim"), nb::arg("seq"),
             nb::arg("name") = "");
}

}  // namespace jax_ipu::bindings
