// Python: sums over windows, by popnn.
//
//   pool_sum(graph, tensor, window, strides, padding, seq, name) -> Tensor
//     tensor [batch, channels, *spatial]; window, strides and padding (low, high) of the spatial dimensions
#include <poplar/Graph.hpp>
#include <popnn/Pooling.hpp>
#include <popnn/codelets.hpp>
#include <utility>

#include "poplibs/bindings.h"

namespace jax_ipu::poplibs {
namespace {

Tensor PoolSum(Graph& graph, const Tensor& tensor, const Shape& window, const std::vector<unsigned>& strides,
               const std::vector<std::pair<int, int>>& padding, Sequence& sequence, const std::string& name) {
  const Shape shape = tensor.shape();
  std::vector<int> low, high;
  for (const auto& [before, after] : padding) {
    low.push_back(before);
    high.push_back(after);
  }
  const popnn::pooling::PoolParams params(popnn::PoolingType::SUM, Shape(shape.begin() + 2, shape.end()),
                                          window, strides, low, high, shape.at(1), shape.at(0),
                                          tensor.elementType());
  // Few programs need them.
  if (!graph.hasCodelet("popnn::SumPooling<float>")) popnn::addCodelets(graph);
  return popnn::pooling::pool(graph, params, tensor, sequence, name);
}

}  // namespace

void BindPooling(nb::module_& module) { module.def("pool_sum", &PoolSum); }

}  // namespace jax_ipu::poplibs
