#include <algorithm>
#include <cstddef>

#include "poplar/exceptions.hpp"
#include "popops/ElementWiseUtil.hpp"

namespace popops {

using poplar::Graph;
using poplar::Tensor;

Tensor createOutputForElementWiseOp(Graph& graph, const std::vector<Tensor>& inputs,
                                    const poplar::Type& outputType,
                                    const poplar::DebugContext& debugContext) {
  if (inputs.empty()) throw poplar::poplar_error("createOutputForElementWiseOp: there are no inputs");
  const Tensor* like = &inputs[0];
  std::ptrdiff_t most = -1;
  for (const Tensor& input : inputs) {
    if (input.shape() != inputs[0].shape())
      throw poplar::poplar_error("createOutputForElementWiseOp: the inputs have several shapes");
    const auto mapping = graph.getTileMapping(input, false);
    const std::ptrdiff_t tiles = std::count_if(mapping.begin(), mapping.end(),
                                               [](const auto& intervals) { return !intervals.empty(); });
    if (tiles <= most) continue;
    like = &input;
    most = tiles;
  }
  return graph.clone(outputType, *like, debugContext);
}

}  // namespace popops
