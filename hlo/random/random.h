// Random bits.
#ifndef HLO_RANDOM_RANDOM_H_
#define HLO_RANDOM_RANDOM_H_

#include <array>
#include <vector>

#include "hlo/Expansion.hpp"

namespace hlo {

// As in Expansions.
void expandRngBitGenerator(poplar::Graph& graph, RandomAlgorithm algorithm, const poplar::Tensor& state,
                           const poplar::Tensor& newState, const poplar::Tensor& bits, const Plan& plan,
                           poplar::program::Sequence& prog, const poplar::DebugContext& debugContext);
void expandThreefry(poplar::Graph& graph, const std::vector<poplar::Tensor>& inputs,
                    const std::array<CounterWord, 2>& counter, const std::vector<poplar::Tensor>& outputs,
                    const Plan& plan, poplar::program::Sequence& prog,
                    const poplar::DebugContext& debugContext);

}  // namespace hlo

#endif  // HLO_RANDOM_RANDOM_H_
