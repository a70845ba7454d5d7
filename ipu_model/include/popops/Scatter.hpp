// Scatter with run-time indices.
#ifndef POPOPS_SCATTER_HPP
#define POPOPS_SCATTER_HPP

#include <cstddef>
#include <vector>

#include "poplar/Graph.hpp"

namespace popops {

// XLA scatter in place, where updates replace elements. See hlo/Index.hpp for general updates, several
// operands and batching dimensions.
void scatter(poplar::Graph& graph, const poplar::Tensor& operand, const poplar::Tensor& indices,
             const poplar::Tensor& updates, std::size_t indexVectorDim,
             const std::vector<unsigned>& updateWindowDims, const std::vector<std::size_t>& insertWindowDims,
             const std::vector<unsigned>& scatterDimsToOperandDims, poplar::program::Sequence& prog,
             const poplar::DebugContext& debugContext = {});

}  // namespace popops

#endif  // POPOPS_SCATTER_HPP
