// The state of the random number generators of the workers. Source: Graphcore's Poplar and PopLibs API
// reference, poplar/RandomSeed.hpp.
#ifndef POPLAR_RANDOMSEED_HPP
#define POPLAR_RANDOMSEED_HPP

#include "poplar/DebugContext.hpp"
#include "poplar/Graph.hpp"
#include "poplar/Program.hpp"
#include "poplar/Tensor.hpp"

namespace poplar {

// The state of the generators of all workers of the graph's tiles, as unsigned int, [tiles, workers, 4]. Each
// program that is loaded begins with the same states, different for every worker. On the model the codelets'
// portable C++ has random numbers of its own, so that a vertex neither uses nor changes the state.
Tensor getHwSeeds(Graph& graph, program::Sequence& prog, const DebugContext& debugContext = {});
// Throws poplar_error for a tensor of another type or shape.
void setHwSeeds(Graph& graph, const Tensor& hwSeeds, program::Sequence& prog,
                const DebugContext& debugContext = {});

}  // namespace poplar

#endif  // POPLAR_RANDOMSEED_HPP
