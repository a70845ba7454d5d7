// Python: convolutions of poplin, with the arguments of _ipu.convolution.
//
//   convolution(graph, lhs, rhs, window, out_dtype, seq, name, options, plans) -> Tensor
//     lhs [n, c, *spatial], rhs [o, i, *spatial] -> [n, o, *spatial]
//   create_convolution_operand(graph, input, dtype, lhs_shape, rhs_shape, window, out_dtype, name, options,
//                              plans)
//     window: strides, padding (low, high), lhs_dilation, rhs_dilation, rhs_reversal, feature_groups
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <cstdint>
#include <poplin/Convolution.hpp>
#include <tuple>
#include <utility>

#include "poplibs/bindings.h"

namespace jax_ipu::poplibs {
namespace {

using Numbers = std::vector<std::int64_t>;
using Window = std::tuple<Numbers, std::vector<std::pair<std::int64_t, std::int64_t>>, Numbers, Numbers,
                          std::vector<bool>, std::int64_t>;

poplin::ConvParams ParamsOf(const poplar::Type& type, const Shape& lhs, const Shape& rhs,
                            const Window& window, const std::string& out_dtype) {
  const auto& [strides, padding, lhs_dilation, rhs_dilation, reversed, feature_groups] = window;
  const auto groups = static_cast<std::size_t>(feature_groups);
  poplin::ConvParams params(type, lhs.at(0), Shape(lhs.begin() + 2, lhs.end()),
                            Shape(rhs.begin() + 2, rhs.end()), rhs.at(1), rhs.at(0) / groups, groups);
  params.outputType = TypeNamed(out_dtype);
  const auto at_least_0 = [](std::int64_t n) { return static_cast<unsigned>(std::max<std::int64_t>(n, 0)); };
  for (std::size_t d = 0; d < strides.size(); ++d) {
    params.outputTransform.stride[d] = static_cast<unsigned>(strides[d]);
    params.inputTransform.dilation[d] = static_cast<unsigned>(lhs_dilation.at(d));
    params.kernelTransform.dilation[d] = static_cast<unsigned>(rhs_dilation.at(d));
    params.kernelTransform.flip[d] = reversed.at(d);
    params.inputTransform.paddingLower[d] = at_least_0(padding.at(d).first);
    params.inputTransform.paddingUpper[d] = at_least_0(padding.at(d).second);
    // To cut the dilated input is to cut the result, before its stride.
    params.outputTransform.truncationLower[d] = at_least_0(-padding.at(d).first);
    params.outputTransform.truncationUpper[d] = at_least_0(-padding.at(d).second);
  }
  return params;
}

Tensor Convolution(Graph& graph, const Tensor& lhs, const Tensor& rhs, const Window& window,
                   const std::string& out_dtype, Sequence& sequence, const std::string& name,
                   const Options& options, PlanningCache& plans) {
  const auto params = ParamsOf(lhs.elementType(), lhs.shape(), rhs.shape(), window, out_dtype);
  const auto groups = static_cast<std::size_t>(std::get<5>(window));
  const Tensor weights = rhs.reshapePartial(0, 1, {groups, rhs.dim(0) / groups});
  return poplin::convolution(graph, lhs, weights, params, false, sequence, name, FlagsOf(options),
                             &plans.convolutions);
}

Tensor CreateOperand(Graph& graph, bool input, const std::string& dtype, const Shape& lhs, const Shape& rhs,
                     const Window& window, const std::string& out_dtype, const std::string& name,
                     const Options& options, PlanningCache& plans) {
  const auto params = ParamsOf(TypeNamed(dtype), lhs, rhs, window, out_dtype);
  if (input) return poplin::createInput(graph, params, name, FlagsOf(options), &plans.convolutions);
  return poplin::createWeights(graph, params, name, FlagsOf(options), &plans.convolutions).flatten(0, 2);
}

}  // namespace

void BindConvolution(nb::module_& module) {
  module.def("convolution", &Convolution);
  module.def("create_convolution_operand", &CreateOperand);
}

}  // namespace jax_ipu::poplibs
