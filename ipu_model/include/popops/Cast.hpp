// Conversion between element types: float to integer truncates and saturates, NaN gives 0.
#ifndef POPOPS_CAST_HPP
#define POPOPS_CAST_HPP

#include "poplar/Graph.hpp"
#include "poplar/Program.hpp"

namespace popops {

poplar::Tensor cast(poplar::Graph& graph, const poplar::Tensor& src, const poplar::Type& dstType,
                    poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {});
// Writes the result to `dst`, of the same shape.
poplar::program::Program cast(poplar::Graph& graph, const poplar::Tensor& src, const poplar::Tensor& dst,
                              const poplar::DebugContext& debugContext = {});

}  // namespace popops

#endif  // POPOPS_CAST_HPP
