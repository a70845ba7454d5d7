// Gathers whose table passes by the indices in rounds.
#ifndef HLO_INDEX_GATHER_ROUNDS_H_
#define HLO_INDEX_GATHER_ROUNDS_H_

#include "hlo/Expansion.hpp"

namespace hlo {

// As Expansions::gather, for a plan with rounds: rows of `operand`, one for each index.
void expandGatherRounds(poplar::Graph& graph, const poplar::Tensor& operand, const poplar::Tensor& indices,
                        const poplar::Tensor& out, const GatherPlan& plan, poplar::program::Sequence& prog,
                        const poplar::DebugContext& debugContext);

}  // namespace hlo

#endif  // HLO_INDEX_GATHER_ROUNDS_H_
