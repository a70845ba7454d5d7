// Convolution, reduce_window and select_and_scatter for Python.
#include "hlo/Convolution.hpp"

#include <nanobind/stl/optional.h>

#include <optional>
#include <stdexcept>

#include "bindings/bindings.h"
#include "hlo/Window.hpp"

namespace jax_ipu::bindings {
namespace {

using Numbers = std::vector<std::int64_t>;
using Sizes = std::vector<std::size_t>;
using Padding = std::vector<std::pair<std::int64_t, std::int64_t>>;
using Options = std::map<std::string, std::string>;

poplar::OptionFlags FlagsOf(const Options& options) {
  poplar::OptionFlags flags;
  for (const auto& [name, value] : options) flags.set(name, value);
  return flags;
}

void CheckCount(std::size_t count, std::size_t dims, const char* what) {
  if (count != dims) {
    throw std::invalid_argument(std::string(what) + " has " + std::to_string(count) + " entries for " +
                                std::to_string(dims) + " dimensions");
  }
}

hlo::ConvolutionParameters ConvolutionParametersOf(const Numbers& strides, const Padding& padding,
                                                   const Numbers& lhs_dilation, const Numbers& rhs_dilation,
                                                   const std::vector<bool>& rhs_reversal,
                                                   std::int64_t feature_group_count,
                                                   std::int64_t batch_group_count,
                                                   const std::string& out_dtype) {
  const std::size_t spatial = strides.size();
  if (spatial > ipu_model::kMaxSpatial) throw std::invalid_argument("convolution has too many dimensions");
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
                           const Options& options, const std::optional<poplar::Tensor>& output_mapping_like) {
  const auto params = ConvolutionParametersOf(strides, padding, lhs_dilation, rhs_dilation, rhs_reversal,
                                              feature_group_count, batch_group_count, out_dtype);
  return hlo::convolution(graph, lhs, rhs, params, output_layout, sequence, name, FlagsOf(options),
                          output_mapping_like.value_or(poplar::Tensor()));
}

using Create = decltype(&hlo::createConvolutionInput);

template <Create create>
poplar::Tensor CreateOperand(poplar::Graph& graph, const Sizes& lhs_shape, const Sizes& rhs_shape,
                             const Numbers& strides, const Padding& padding, const Numbers& lhs_dilation,
                             const Numbers& rhs_dilation, const std::vector<bool>& rhs_reversal,
                             std::int64_t feature_group_count, std::int64_t batch_group_count,
                             const std::string& out_dtype, const Numbers& layout, const std::string& dtype,
                             const std::string& name, const Options& options) {
  const auto params = ConvolutionParametersOf(strides, padding, lhs_dilation, rhs_dilation, rhs_reversal,
                                              feature_group_count, batch_group_count, out_dtype);
  return create(graph, TypeNamed(dtype), lhs_shape, rhs_shape, params, layout, name, FlagsOf(options));
}

hlo::WindowParameters WindowParametersOf(const Numbers& window, const Numbers& strides,
                                         const Numbers& base_dilation, const Numbers& window_dilation,
                                         const Padding& padding) {
  const std::size_t rank = window.size();
  if (rank > ipu_model::kMaxRank) throw std::invalid_argument("a window has too many dimensions");
  CheckCount(strides.size(), rank, "strides");
  CheckCount(base_dilation.size(), rank, "base_dilation");
  CheckCount(window_dilation.size(), rank, "window_dilation");
  CheckCount(padding.size(), rank, "padding");
  hlo::WindowParameters params;
  params.geometry.rank = static_cast<int>(rank);
  for (std::size_t d = 0; d < rank; ++d) {
    params.geometry.dim[d] = {window[d], strides[d], base_dilation[d], window_dilation[d], padding[d].first};
    params.paddingHigh.push_back(padding[d].second);
  }
  return params;
}

std::vector<poplar::Tensor> ReduceWindow(poplar::Graph& graph, const std::vector<poplar::Tensor>& tensors,
                                         const std::vector<poplar::Tensor>& inits, const Numbers& window,
                                         const Numbers& strides, const Numbers& base_dilation,
                                         const Numbers& window_dilation, const Padding& padding,
                                         const ipu_model::Expression& expression,
                                         poplar::program::Sequence& sequence, const std::string& name) {
  return hlo::reduceWindow(graph, tensors, inits,
                           WindowParametersOf(window, strides, base_dilation, window_dilation, padding),
                           expression, sequence, name);
}

poplar::Tensor SelectAndScatter(poplar::Graph& graph, const poplar::Tensor& operand,
                                const poplar::Tensor& source, const poplar::Tensor& init,
                                const Numbers& window, const Numbers& strides, const Padding& padding,
                                const ipu_model::Expression& select_expression,
                                const ipu_model::Expression& scatter_expression,
                                poplar::program::Sequence& sequence, const std::string& name) {
  const Numbers ones(window.size(), 1);
  return hlo::selectAndScatter(graph, operand, source, init,
                               WindowParametersOf(window, strides, ones, ones, padding), select_expression,
                               scatter_expression, sequence, name);
}

}  // namespace

void BindConvolution(nb::module_& module) {
  module.def(
      "convolution", Convolution, nb::arg("graph"), nb::arg("lhs"), nb::arg("rhs"), nb::arg("strides"),
      nb::arg("padding"), nb::arg("lhs_dilation"), nb::arg("rhs_dilation"), nb::arg("rhs_reversal"),
      nb::arg("feature_group_count"), nb::arg("batch_group_count"), nb::arg("out_dtype"),
      nb::arg("output_layout"), nb::arg("seq"), nb::arg("name") = "", nb::arg("options") = Options{},
      nb::arg("output_mapping_like") = nb::none(),
      "lhs [n, c, *spatial] and rhs [o, i, *spatial] -> [n, o, *spatial], with dimensions output_layout "
      "from major to minor in memory. Where output_mapping_like (a tensor of the result's shape) is "
      "given, the result has its memory order and lies on its tiles.");
  const auto create = [&](const char* name, auto function, const char* doc) {
    module.def(name, function, nb::arg("graph"), nb::arg("lhs_shape"), nb::arg("rhs_shape"),
               nb::arg("strides"), nb::arg("padding"), nb::arg("lhs_dilation"), nb::arg("rhs_dilation"),
               nb::arg("rhs_reversal"), nb::arg("feature_group_count"), nb::arg("batch_group_count"),
               nb::arg("out_dtype"), nb::arg("layout"), nb::arg("dtype"), nb::arg("name") = "",
               nb::arg("options") = Options{}, doc);
  };
  create("create_conv_input", CreateOperand<hlo::createConvolutionInput>,
         "A new variable [n, c, *spatial] with memory order `layout`, mapped as this convolution reads it.");
  create("create_conv_weights", CreateOperand<hlo::createConvolutionWeights>,
         "A new variable [o, i, *spatial] with memory order `layout`, mapped as this convolution reads it.");
  module.def("reduce_window", ReduceWindow, nb::arg("graph"), nb::arg("tensors"), nb::arg("inits"),
             nb::arg("window"), nb::arg("strides"), nb::arg("base_dilation"), nb::arg("window_dilation"),
             nb::arg("padding"), nb::arg("expression"), nb::arg("seq"), nb::arg("name") = "",
             "Reduces every window of the tensors; expression has inputs acc_0.., value_0.. and n outputs.");
  module.def("select_and_scatter", SelectAndScatter, nb::arg("graph"), nb::arg("operand"), nb::arg("source"),
             nb::arg("init"), nb::arg("window"), nb::arg("strides"), nb::arg("padding"),
             nb::arg("select_expression"), nb::arg("scatter_expression"), nb::arg("seq"),
             nb::arg("name") = "",
             "Scatters each element of source to the element that its window of operand selects.");
}

}  // namespace jax_ipu::bindings
