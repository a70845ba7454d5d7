// The part of popops::fill that does not depend on the type of the value.
#ifndef POPOPS_FILLVALUE_HPP
#define POPOPS_FILLVALUE_HPP

#include "poplar/Graph.hpp"
#include "poplar/Program.hpp"

namespace popops {

void fillValueOf(poplar::Graph& graph, const poplar::Tensor& t, poplar::program::Sequence& prog, double value,
                 const poplar::DebugContext& debugContext);

}  // namespace popops

#endif  // POPOPS_FILLVALUE_HPP
