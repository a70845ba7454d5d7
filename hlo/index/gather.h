// Slices and gathers at run-time positions.
#ifndef HLO_INDEX_GATHER_H_
#define HLO_INDEX_GATHER_H_

#include <vector>

#include "hlo/Expansion.hpp"

namespace hlo {

// As in Expansions.
void expandDynamicSlice(poplar::Graph& graph, const poplar::Tensor& operand,
                        const std::vector<poplar::Tensor>& starts, const poplar::Tensor& out,
                        const GatherPlan& plan, poplar::program::Sequence& prog,
                        const poplar::DebugContext& debugContext);
void expandGather(poplar::Graph& graph, const poplar::Tensor& operand, const poplar::Tensor& indices,
                  const WindowDims& dims, const std::vector<std::size_t>& sliceSizes,
                  const poplar::Tensor& out, const GatherPlan& plan, poplar::program::Sequence& prog,
                  const poplar::DebugContext& debugContext);

}  // namespace hlo

#endif  // HLO_INDEX_GATHER_H_
