// Python: convolution.
#include "hlo/Convolution.hpp"

#include <nanobind/stl/optional.h>

#include <optional>
#include <stdexcept>

#include "bindings/bindings.h"
#include "bindings/planning_cache.h"

namespace jax_ipu::bindings {
namespace {

using Numbers = std::vector<std::int64_t>;
using Sizes = std::vector<std::size_t>;
using Padding = std::vector<std::pair<std::int64_t, std::int64_t>>;

hlo::ConvolutionParameters ConvolutionParametersOf(const Numbers& strides, const Padding& padding,
                                                   const Numbers& lhs_dilation, const Numbers& rhs_dilation,
                                                   const std::vector<bool>& rhs_reversal,
                                                   std::int64_t feature_group_count,
                                                   std::int64_t batch_group_count,
                                                   const std::string& out_dtype) {
  const std::size_t spatial = strides.size();
  if (spatial > hlo::kMaxSpatial) throw std::invalid_argument("convolution has too many dimensions");
  CheckCount(padding.size(), spatial, "padding");
  CheckCount(lhs_dilation.size(), spatial, "lhs_dilation");
  CheckCount(rhs_dilation.size(), spatial, "rhs_dilation");
  CheckCount(rhs_reversal.size(), spatial, "rhs_reversal");
  hlo::ConvolutionParameters params;
  params.geometry.spatial = static_cast<int>(spatial);
  params.geometry.feature_groups = feature_group_count;
  params.geometry.batch_groups = batch_group_count;
  params.outputType = TypeNamed(out_dtype);
  for (std::size_t d = 0; d < spatial; ++d) {
    params.geometry.window[d] = {strides[d], padding[d].first, lhs_dilation[d], rhs_dilation[d],
                                 rhs_reversal[d]};
    params.paddingHigh.push_back(padding[d].second);
  }
  return params;
}

poplar::Tensor Convolution(poplar::Graph& graph, const poplar::Tensor& lhs, const poplar::Tensor& rhs,
                           const Numbers& strides, const Padding& padding, const Numbers& lhs_dilation,
                           const Numbers& rhs_dilation, const std::vector<bool>& rhs_reversal,
                           std::int64_t feature_group_count, std::int64_t batch_group_count,
                           const std::string& out_dtype, const Numbers& output_layout,
                           poplar::program::Sequence& sequence, const std::string& name,
                           const Options& options, const std::optional<poplar::Tensor>& output_mapping_like,
                           PlanningCache* plans) {
  const auto params = ConvolutionParametersOf(strides, padding, lhs_dilation, rhs_dilation, rhs_reversal,
                                              feature_group_count, batch_group_count, out_dtype);
  return hlo::convolution(graph, lhs, rhs, params, output_layout, sequence, name, FlagsOf(options),
                          output_mapping_like.value_or(poplar::Tensor()),
                          plans == nullptr ? nullptr : &plans->convolutions);
}

using Create = decltype(&hlo::createConvolutionInput);

template <Create create>
poplar::Tensor CreateOperand(poplar::Graph& graph, const Sizes& lhs_shape, const Sizes& rhs_shape,
                             const Numbers& strides, const Padding& padding, const Numbers& lhs_dilation,
                             const Numbers& rhs_dilation, const std::vector<bool>& rhs_reversal,
                             std::int64_t feature_group_count, std::int64_t batch_group_count,
                             const std::string& out_dtype, const Numbers& layout, const std::string& dtype,
                             const std::string& name, const Options& options, PlanningCache* plans) {
  const auto params = ConvolutionParametersOf(strides, padding, lhs_dilation, rhs_dilation, rhs_reversal,
                                              feature_group_count, batch_group_count, out_dtype);
  return create(graph, TypeNamed(dtype), lhs_shape, rhs_shape, params, layout, name, FlagsOf(options),
                plans == nullptr ? nullptr : &plans->convolutions);
}

}  // namespace

void BindConvolution(nb::module_& module) {
  module.def(
      "convolution", Convolution, nb::arg("graph"), nb::arg("lhs"), nb::arg("rhs"), nb::arg("strides"),
      nb::arg("padding"), nb::arg("lhs_dilation"), nb::arg("rhs_dilation"), nb::arg("rhs_reversal"),
      nb::arg("feature_group_count"), nb::arg("batch_group_count"), nb::arg("out_dtype"),
      nb::arg("output_layout"), nb::arg("seq"), nb::arg("name") = "", nb::arg("options") = Options{},
      nb::arg("output_mapping_like") = nb::none(), nb::arg("plans") = nb::none(),
      "lhs [n, c, *spatial] and rhs [o, i, *spatial] -> [n, o, *spatial], with dimensions output_layout "
      "from major to minor in memory. Where output_mapping_like (a tensor of the result's shape) is "
      "given, the result has its memory order and lies on its tiles.");
  const auto create = [&](const char* name, auto function, const char* doc) {
    module.def(name, function, nb::arg("graph"), nb::arg("lhs_shape"), nb::arg("rhs_shape"),
               nb::arg("strides"), nb::arg("padding"), nb::arg("lhs_dilation"), nb::arg("rhs_dilation"),
               nb::arg("rhs_reversal"), nb::arg("feature_group_count"), nb::arg("batch_group_count"),
               nb::arg("out_dtype"), nb::arg("layout"), nb::arg("dtype"), nb::arg("name") = "",
               nb::arg("options") = Options{}, nb::arg("plans") = nb::none(), doc);
  };
  create("create_conv_input", CreateOperand<hlo::createConvolutionInput>,
         "A new variable [n, c, *spatial] with memory order `layout`, mapped as this convolution reads it.");
  create("create_conv_weights", CreateOperand<hlo::createConvolutionWeights>,
         "A new variable [o, i, *spatial] with memory order `layout`, mapped as this convolution reads it.");
}

}  // namespace jax_ipu::bindings
