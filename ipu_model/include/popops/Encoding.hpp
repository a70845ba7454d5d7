// Counting tensors.
#ifndef POPOPS_ENCODING_HPP
#define POPOPS_ENCODING_HPP

#include "poplar/Graph.hpp"
#include "poplar/Program.hpp"

namespace popops {

// t[i] = startInteger + i for a tensor of rank 1.
void iota(poplar::Graph& graph, const poplar::Tensor& t, unsigned startInteger,
          poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {});
void iota(poplar::Graph& graph, const poplar::Tensor& t, int startInteger, poplar::program::Sequence& prog,
          const poplar::DebugContext& debugContext = {});

}  // namespace popops

#endif  // POPOPS_ENCODING_HPP
