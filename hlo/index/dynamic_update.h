// Updates of slices at run-time positions.
#ifndef HLO_INDEX_DYNAMIC_UPDATE_H_
#define HLO_INDEX_DYNAMIC_UPDATE_H_

#include <vector>

#include "poplar/Graph.hpp"

namespace hlo {

// As in Expansions.
void expandDynamicUpdate(poplar::Graph& graph, const poplar::Tensor& operand, const poplar::Tensor& update,
                         const std::vector<poplar::Tensor>& starts, const poplar::Tensor& out, bool inPlace,
                         poplar::program::Sequence& prog, const poplar::DebugContext& debugContext);

}  // namespace hlo

#endif  // HLO_INDEX_DYNAMIC_UPDATE_H_
