// Results of elementwise operations. Source: PopLibs, include/popops/ElementWiseUtil.hpp.
#ifndef POPOPS_ELEMENTWISEUTIL_HPP
#define POPOPS_ELEMENTWISEUTIL_HPP

#include <vector>

#include "poplar/Graph.hpp"

namespace popops {

// A variable of `outputType` with the shape of the inputs, mapped like the first of them whose elements are
// on the most tiles. Throws poplar_error where there are no inputs or where their shapes differ.
poplar::Tensor createOutputForElementWiseOp(poplar::Graph& graph, const std::vector<poplar::Tensor>& inputs,
                                            const poplar::Type& outputType,
                                            const poplar::DebugContext& debugContext = {});

}  // namespace popops

#endif  // POPOPS_ELEMENTWISEUTIL_HPP
