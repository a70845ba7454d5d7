// Gathers whose table passes by the indices in rounds.
#ifndef HLO_INDEX_GATHER_ROUNDS_H_
#define HLO_INDEX_GATHER_ROUNDS_H_

#include <string>
#include <vector>

#include "hlo/Expansion.hpp"
#include "planned.h"

namespace hlo {

// The codelets that gathers and scatters in rounds share (codelets/gatherRounds.cpp), for groups with these
// reads and writes: `name` with its arguments in C++, without the namespace.
PlannedCodelet roundsCodelet(const std::string& name, std::vector<std::string> reads,
                             std::vector<std::string> writes);
// Orders indices of the type `index`, in C++.
PlannedCodelet orderCodelet(const GatherRounds& rounds, const std::string& index);

// As Expansions::gather, for a plan with rounds: rows of `operand`, one for each index.
void expandGatherRounds(poplar::Graph& graph, const poplar::Tensor& operand, const poplar::Tensor& indices,
                        const poplar::Tensor& out, const GatherPlan& plan, poplar::program::Sequence& prog,
                        const poplar::DebugContext& debugContext);

}  // namespace hlo

#endif  // HLO_INDEX_GATHER_ROUNDS_H_
