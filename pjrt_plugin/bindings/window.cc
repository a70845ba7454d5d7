// Python: reductions over sliding windows.
#include "hlo/Window.hpp"

#include <stdexcept>

#include "bindings/bindings.h"

namespace jax_ipu::bindings {
namespace {

using hlo::Expression;
using Numbers = std::vector<std::int64_t>;
using Padding = std::vector<std::pair<std::int64_t, std::int64_t>>;

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
                                         const Expression& expression, poplar::program::Sequence& sequence,
                                         const std::string& name) {
  return hlo::reduceWindow(graph, tensors, inits,
                           WindowParametersOf(window, strides, base_dilation, window_dilation, padding),
                           expression, sequence, name);
}

poplar::Tensor SelectAndScatter(poplar::Graph& graph, const poplar::Tensor& operand,
                                const poplar::Tensor& source, const poplar::Tensor& init,
                                const Numbers& window, const Numbers& strides, const Padding& padding,
                                const Expression& select_expression, const Expression& scatter_expression,
                                poplar::program::Sequence& sequence, const std::string& name) {
  const Numbers ones(window.size(), 1);
  return hlo::selectAndScatter(graph, operand, source, init,
                               WindowParametersOf(window, strides, ones, ones, padding), select_expression,
                               scatter_expression, sequence, name);
}

}  // namespace

void BindWindow(nb::module_& module) {
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
