// QR factorisation of a panel, and products with Q, as vertices.
#ifndef HLO_LINEAR_ALGEBRA_REFLECTORS_H_
#define HLO_LINEAR_ALGEBRA_REFLECTORS_H_

#include "hlo/Plan.hpp"
#include "poplar/Graph.hpp"

namespace hlo {

// As Expansions::qrPanel and Expansions::applyReflectors.
void expandQrPanel(poplar::Graph& graph, const poplar::Tensor& a, const poplar::Tensor& packed,
                   const poplar::Tensor& taus, const Plan& plan, poplar::program::Sequence& prog,
                   const poplar::DebugContext& debugContext);
void expandApplyReflectors(poplar::Graph& graph, const poplar::Tensor& packed, const poplar::Tensor& taus,
                           const poplar::Tensor& x, unsigned below, const poplar::Tensor& out,
                           const Plan& plan, poplar::program::Sequence& prog,
                           const poplar::DebugContext& debugContext);

}  // namespace hlo

#endif  // HLO_LINEAR_ALGEBRA_REFLECTORS_H_
