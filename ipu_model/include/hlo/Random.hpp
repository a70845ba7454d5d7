// StableHLO rng_bit_generator, which PopLibs has no function for. Source: the StableHLO specification.
#ifndef HLO_RANDOM_HPP
#define HLO_RANDOM_HPP

#include <cstddef>
#include <utility>
#include <vector>

#include "hlo/RandomAlgorithm.hpp"
#include "poplar/Graph.hpp"

namespace hlo {

// The new state, and random bits of an 8 to 64 bit integer type. The state is 1-D: 16 bytes (key, counter),
// or 24 for Philox. The bits are those of XLA:CPU. Throws poplar::poplar_error when shapes or types do not
// fit.
std::pair<poplar::Tensor, poplar::Tensor> rngBitGenerator(poplar::Graph& graph, RandomAlgorithm algorithm,
                                                          const poplar::Tensor& state,
                                                          const poplar::Type& type,
                                                          const std::vector<std::size_t>& shape,
                                                          poplar::program::Sequence& prog,
                                                          const poplar::DebugContext& debugContext = {});

}  // namespace hlo

#endif  // HLO_RANDOM_HPP
