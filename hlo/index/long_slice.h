// Slices and updates at run-time positions that are too long for one tile.
#ifndef HLO_INDEX_LONG_SLICE_H_
#define HLO_INDEX_LONG_SLICE_H_

#include <vector>

#include "hlo/Expansion.hpp"
#include "poplar/Graph.hpp"

namespace hlo {

// As in Expansions.
void expandLongSlice(poplar::Graph& graph, const poplar::Tensor& operand,
                     const std::vector<poplar::Tensor>& starts, const poplar::Tensor& out,
                     const LongSlicePlan& plan, poplar::program::Sequence& prog,
                     const poplar::DebugContext& debugContext);
void expandLongUpdate(poplar::Graph& graph, const poplar::Tensor& operand, const poplar::Tensor& update,
                      const std::vector<poplar::Tensor>& starts, const poplar::Tensor& out, bool inPlace,
                      const LongSlicePlan& plan, poplar::program::Sequence& prog,
                      const poplar::DebugContext& debugContext);

}  // namespace hlo

#endif  // HLO_INDEX_LONG_SLICE_H_
