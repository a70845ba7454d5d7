// Constant fill.
#ifndef POPOPS_FILL_HPP
#define POPOPS_FILL_HPP

#include <string>

#include "poplar/Graph.hpp"
#include "poplar/Program.hpp"
#include "poplar/exceptions.hpp"
#include "popops/FillValue.hpp"

namespace popops {

// Sets every element of `t` to `fillValue`, converted to the tensor's type.
template <typename FillValueType>
void fill(poplar::Graph& graph, const poplar::Tensor& t, poplar::program::Sequence& prog,
          FillValueType fillValue, const poplar::DebugContext& debugContext = {}) {
  fillValueOf(graph, t, prog, static_cast<double>(fillValue), debugContext);
}

}  // namespace popops

#endif  // POPOPS_FILL_HPP
