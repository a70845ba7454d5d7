// The implicit QR algorithm as vertices.
#ifndef HLO_LINEAR_ALGEBRA_IMPLICIT_QR_H_
#define HLO_LINEAR_ALGEBRA_IMPLICIT_QR_H_

#include <vector>

#include "hlo/Plan.hpp"
#include "poplar/Graph.hpp"

namespace hlo {

// As Expansions::implicitQr.
void expandImplicitQr(poplar::Graph& graph, bool bidiagonal, const std::vector<poplar::Tensor>& inputs,
                      const std::vector<poplar::Tensor>& outputs, const Plan& plan,
                      poplar::program::Sequence& prog, const poplar::DebugContext& debugContext);

}  // namespace hlo

#endif  // HLO_LINEAR_ALGEBRA_IMPLICIT_QR_H_
