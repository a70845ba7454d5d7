// Gather with run-time indices. Source: PopLibs, include/popops/Gather.hpp.
// All functions throw poplar::poplar_error when shapes or types do not fit.
#ifndef POPOPS_GATHER_HPP
#define POPOPS_GATHER_HPP

#include <cstddef>
#include <vector>

#include "poplar/Graph.hpp"

namespace popops {

// XLA gather without batching dimensions. `sliceSizes` has one entry per operand dimension; starts are
// clamped so that every window is inside the operand. See hlo/Index.hpp for the form with batching
// dimensions.
poplar::Tensor gather(poplar::Graph& graph, const poplar::Tensor& operand, const poplar::Tensor& indices,
                      std::size_t indexVectorDim, const std::vector<std::size_t>& offsetDims,
                      const std::vector<std::size_t>& sliceSizes,
                      const std::vector<std::size_t>& collapsedSliceDims,
                      const std::vector<unsigned>& startIndexMap, poplar::program::Sequence& prog,
                      const poplar::DebugContext& debugContext = {});

}  // namespace popops

#endif  // POPOPS_GATHER_HPP
