// Zeros. Source: PopLibs, include/popops/Zero.hpp; the forms that add vertices to a compute set are not here.
#ifndef POPOPS_ZERO_HPP
#define POPOPS_ZERO_HPP

#include "popops/Fill.hpp"

namespace popops {

// Sets every element of `t` to zero.
inline void zero(poplar::Graph& graph, const poplar::Tensor& t, poplar::program::Sequence& prog,
                 const poplar::DebugContext& debugContext = {}) {
  fill(graph, t, prog, 0, debugContext);
}

}  // namespace popops

#endif  // POPOPS_ZERO_HPP
