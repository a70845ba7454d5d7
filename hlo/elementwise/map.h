// Elementwise expressions.
#ifndef HLO_ELEMENTWISE_MAP_H_
#define HLO_ELEMENTWISE_MAP_H_

#include <vector>

#include "hlo/Expression.hpp"
#include "poplar/Graph.hpp"

namespace hlo {

// As in Expansions.
void expandMap(poplar::Graph& graph, const Expression& expression, const std::vector<poplar::Tensor>& inputs,
               const std::vector<poplar::Tensor>& outputs, const std::vector<int>& inPlace,
               poplar::program::Sequence& prog, const poplar::DebugContext& debugContext);

}  // namespace hlo

#endif  // HLO_ELEMENTWISE_MAP_H_
