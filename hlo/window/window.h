// Reductions of windows, cumulative operations, and select_and_scatter.
#ifndef HLO_WINDOW_WINDOW_H_
#define HLO_WINDOW_WINDOW_H_

#include <vector>

#include "hlo/Expansion.hpp"

namespace hlo {

// As in Expansions.
void expandReduceWindow(poplar::Graph& graph, const std::vector<poplar::Tensor>& values,
                        const std::vector<poplar::Tensor>& inits, const WindowGeometry& geometry,
                        const Running& running, const Expression& combiner,
                        const std::vector<poplar::Tensor>& out, const Plan& plan,
                        poplar::program::Sequence& prog, const poplar::DebugContext& debugContext);
void expandSelectAndScatter(poplar::Graph& graph, const poplar::Tensor& operand, const poplar::Tensor& source,
                            const poplar::Tensor& init, const WindowGeometry& geometry,
                            const Expression& select, const Expression& scatter, const poplar::Tensor& out,
                            const Plan& plan, poplar::program::Sequence& prog,
                            const poplar::DebugContext& debugContext);

}  // namespace hlo

#endif  // HLO_WINDOW_WINDOW_H_
