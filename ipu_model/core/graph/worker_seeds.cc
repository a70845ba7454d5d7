// poplar::getHwSeeds and setHwSeeds: the state of the workers' random number generators.
#include <cstdint>

#include "core/graph/tile_state.h"
#include "poplar/RandomSeed.hpp"
#include "poplar/exceptions.hpp"

namespace poplar {
namespace {

constexpr std::size_t kWords = 4;  // of a generator's state

// Different for all workers, and not zero, as a generator's state must be (the function of SplitMix64).
unsigned FirstWord(std::uint64_t i) {
  std::uint64_t z = (i + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return static_cast<unsigned>(z ^ (z >> 31)) | 1u;
}

Tensor SeedsOf(const Graph& graph) {
  return ipu_model::TileState(graph, "poplar_rt::hwSeeds", {graph.getTarget().getNumWorkerContexts(), kWords},
                              FirstWord);
}

}  // namespace

Tensor getHwSeeds(Graph& graph, program::Sequence& prog, const DebugContext& debugContext) {
  const Tensor seeds = SeedsOf(graph);
  const Tensor copy = graph.clone(seeds, debugContext);
  prog.add(program::Copy(seeds, copy, false, debugContext));
  return copy;
}

void setHwSeeds(Graph& graph, const Tensor& hwSeeds, program::Sequence& prog,
                const DebugContext& debugContext) {
  const Tensor seeds = SeedsOf(graph);
  if (!hwSeeds.valid() || hwSeeds.elementType() != UNSIGNED_INT || hwSeeds.shape() != seeds.shape()) {
    throw poplar_error("setHwSeeds '" + debugContext.getPathName() +
                       "': the seeds have the shape of those that getHwSeeds returns, " +
                       seeds.shapeToString() + ", and type unsigned int");
  }
  prog.add(program::Copy(hwSeeds, seeds, false, debugContext));
}

}  // namespace poplar
