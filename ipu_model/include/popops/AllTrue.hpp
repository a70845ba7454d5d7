// The conjunction of all elements. Source: PopLibs, include/popops/AllTrue.hpp.
// All functions throw poplar::poplar_error when shapes or types do not fit.
#ifndef POPOPS_ALLTRUE_HPP
#define POPOPS_ALLTRUE_HPP

#include "poplar/Graph.hpp"
#include "poplar/Program.hpp"

namespace popops {

// A BOOL scalar: whether every element of the BOOL tensor `A` is true; true when there are none.
poplar::Tensor allTrue(poplar::Graph& graph, poplar::Tensor A, poplar::program::Sequence& prog,
                       const poplar::DebugContext& debugContext = {});

}  // namespace popops

#endif  // POPOPS_ALLTRUE_HPP
