// Reductions over any dimensions.
#ifndef HLO_REDUCE_REDUCE_H_
#define HLO_REDUCE_REDUCE_H_

#include <vector>

#include "hlo/Expansion.hpp"

namespace hlo {

// As in Expansions.
void expandReduce(poplar::Graph& graph, const std::vector<poplar::Tensor>& values,
                  const std::vector<poplar::Tensor>& inits, const std::vector<std::size_t>& dims,
                  const Expression& body, const std::vector<poplar::Tensor>& out, const Plan& plan,
                  poplar::program::Sequence& prog, const poplar::DebugContext& debugContext);

}  // namespace hlo

#endif  // HLO_REDUCE_REDUCE_H_
