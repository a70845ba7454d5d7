// Scatters at run-time positions.
#ifndef HLO_INDEX_SCATTER_H_
#define HLO_INDEX_SCATTER_H_

#include <vector>

#include "hlo/Expansion.hpp"

namespace hlo {

// As in Expansions.
void expandScatter(poplar::Graph& graph, const std::vector<poplar::Tensor>& operands,
                   const poplar::Tensor& indices, const std::vector<poplar::Tensor>& updates,
                   const WindowDims& dims, const Expression& update, const std::vector<poplar::Tensor>& out,
                   bool inPlace, const ScatterPlan& plan, poplar::program::Sequence& prog,
                   const poplar::DebugContext& debugContext);

}  // namespace hlo

#endif  // HLO_INDEX_SCATTER_H_
