// StableHLO rng_bit_generator and JAX's threefry2x32, which PopLibs has no functions for. Sources: the
// StableHLO specification, and JAX's definition of the primitive.
#ifndef HLO_RANDOM_HPP
#define HLO_RANDOM_HPP

#include <array>
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

// JAX's threefry2x32: the ThreeFry block of the key and counter at every position. `key` and
// `counterTensors` (one for each word of the counter that has a tensor) are UNSIGNED_INT, and may be
// broadcast, but have the shape of the results. Writes into `outputs` (8, 16 or 32 bits) the exclusive or of
// both words of a block; (64 bits) the first word above the second; or (two of 32 bits) the words. Throws
// poplar::poplar_error when shapes or types do not fit.
void threefry2x32(poplar::Graph& graph, const std::array<poplar::Tensor, 2>& key,
                  const std::array<CounterWord, 2>& counter,
                  const std::vector<poplar::Tensor>& counterTensors,
                  const std::vector<poplar::Tensor>& outputs, poplar::program::Sequence& prog,
                  const poplar::DebugContext& debugContext = {});

}  // namespace hlo

#endif  // HLO_RANDOM_HPP
