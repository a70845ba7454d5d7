// Python: products of poplin.
//
//   mat_mul_grouped(graph, a, b, out_dtype, seq, name, options, plans) -> Tensor
//   create_mat_mul_grouped_input(graph, lhs, in_dtype, out_dtype, a_shape, b_shape, name, options, plans)
#include <poplin/MatMul.hpp>
#include <sstream>

#include "poplibs/bindings.h"

namespace jax_ipu::poplibs {
namespace {

constexpr char kPass[] = "fullyConnectedPass";

// The product of the forward pass that another one belongs to.
struct Forward {
  Shape a, b;
};

Forward ForwardOf(const std::string& pass, const Shape& a, const Shape& b) {
  if (pass == "TRAINING_BWD") return {{a[0], a[1], b[2]}, {a[0], b[2], a[2]}};
  if (pass == "TRAINING_WU") return {{a[0], a[2], a[1]}, {a[0], a[1], b[2]}};
  return {a, b};
}

// Whether the text of a plan says that something is not the case.
bool Denies(const std::string& plan, const std::string& name) {
  const std::size_t at = plan.find(name);
  if (at == std::string::npos) return false;
  std::istringstream rest(plan.substr(at + name.size()));
  std::string value;
  rest >> value;
  return value == "false";
}

// Whether one plan for the three products of a layer would multiply what was not written yet. PopLibs makes
// the plan of the weight update from that of the forward pass by exchanging the splits of input and output
// channels (getFullyConnectedWUPlan in poplin/ConvPlan.cpp). It keeps broadcastInputBeforeLoop, which its
// planner allows only where no loop goes over input channels: then the update copies slices of its input
// once, before the loop that makes them.
bool UpdateReadsTooEarly(Graph& graph, const poplar::Type& in, const poplar::Type& out, const Shape& a,
                         const Shape& b, const Options& options, PlanningCache& plans) {
  const Forward forward = ForwardOf(options.at(kPass), a, b);
  Options of_forward = options;
  of_forward[kPass] = "TRAINING_FWD";
  const auto key = std::make_tuple(in.toString(), out.toString(), forward.a, forward.b, of_forward);
  const auto [entry, is_new] = plans.reads_too_early.try_emplace(key, false);
  if (is_new) {
    std::ostringstream plan;
    poplin::matMulGroupedReportPlan(plan, graph, in, out, forward.a, forward.b, FlagsOf(of_forward),
                                    &plans.products);
    entry->second = !Denies(plan.str(), "isJointPlan") && !Denies(plan.str(), "broadcastInputBeforeLoop");
  }
  return entry->second;
}

// The options of a product, without its pass where the three products of the layer must be planned apart.
poplar::OptionFlags ProductFlags(Graph& graph, const poplar::Type& in, const poplar::Type& out,
                                 const Shape& a, const Shape& b, Options options, PlanningCache& plans) {
  if (options.count(kPass) != 0 && UpdateReadsTooEarly(graph, in, out, a, b, options, plans))
    options.erase(kPass);
  return FlagsOf(options);
}

Tensor MatMulGrouped(Graph& graph, const Tensor& a, const Tensor& b, const std::string& out_dtype,
                     Sequence& sequence, const std::string& name, const Options& options,
                     PlanningCache& plans) {
  const poplar::Type out = TypeNamed(out_dtype);
  const poplar::OptionFlags flags =
      ProductFlags(graph, a.elementType(), out, a.shape(), b.shape(), options, plans);
  return poplin::matMulGrouped(graph, a, b, sequence, out, name, flags, &plans.products);
}

Tensor CreateInput(Graph& graph, bool lhs, const std::string& in_dtype, const std::string& out_dtype,
                   const Shape& a_shape, const Shape& b_shape, const std::string& name,
                   const Options& options, PlanningCache& plans) {
  const poplar::Type in = TypeNamed(in_dtype), out = TypeNamed(out_dtype);
  const poplar::OptionFlags flags = ProductFlags(graph, in, out, a_shape, b_shape, options, plans);
  return (lhs ? poplin::createMatMulGroupedInputLHS : poplin::createMatMulGroupedInputRHS)(
      graph, in, out, a_shape, b_shape, name, flags, &plans.products);
}

}  // namespace

void BindProduct(nb::module_& module) {
  module.def("mat_mul_grouped", &MatMulGrouped);
  module.def("create_mat_mul_grouped_input", &CreateInput);
}

}  // namespace jax_ipu::poplibs
