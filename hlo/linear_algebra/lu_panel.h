// LU factorisation of a panel as vertices.
#ifndef HLO_LINEAR_ALGEBRA_LU_PANEL_H_
#define HLO_LINEAR_ALGEBRA_LU_PANEL_H_

#include "hlo/Plan.hpp"
#include "poplar/Graph.hpp"

namespace hlo {

// As Expansions::luPanel.
void expandLuPanel(poplar::Graph& graph, const poplar::Tensor& a, const poplar::Tensor& factors,
                   const poplar::Tensor& pivots, const poplar::Tensor& order, const Plan& plan,
                   poplar::program::Sequence& prog, const poplar::DebugContext& debugContext);

}  // namespace hlo

#endif  // HLO_LINEAR_ALGEBRA_LU_PANEL_H_
