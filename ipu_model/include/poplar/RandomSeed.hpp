// The state of the random number generators of the workers. Source: Graphcore's Poplar and PopLibs API
// reference, poplar/RandomSeed.hpp.
#ifndef POPLAR_RANDOMSEED_HPP
#define POPLAR_RANDOMSEED_HPP

#include <string>

#include "poplar/DebugContext.hpp"
#include "poplar/Graph.hpp"
#include "poplar/Program.hpp"
#include "poplar/exceptions.hpp"

namespace poplar {

// The workers of the model have no random number generator, so both throw poplar_error.
inline Tensor getHwSeeds(Graph& /*graph*/, program::Sequence& /*prog*/,
                         const DebugContext& debugContext = {}) {
  throw poplar_error("getHwSeeds '" + debugContext.getPathName() +
                     "': the workers of the model have no random number generator");
}
inline void setHwSeeds(Graph& /*graph*/, const Tensor& /*hwSeeds*/, program::Sequence& /*prog*/,
                       const DebugContext& debugContext = {}) {
  throw poplar_error("setHwSeeds '" + debugContext.getPathName() +
                     "': the workers of the model have no random number generator");
}

}  // namespace poplar

#endif  // POPLAR_RANDOMSEED_HPP
