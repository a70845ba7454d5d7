// The Schur form of small matrices as vertices.
#ifndef HLO_LINEAR_ALGEBRA_SCHUR_H_
#define HLO_LINEAR_ALGEBRA_SCHUR_H_

#include <vector>

#include "hlo/Plan.hpp"
#include "poplar/Graph.hpp"

namespace hlo {

// As Expansions::schur.
void expandSchur(poplar::Graph& graph, bool balanced, const poplar::Tensor& a,
                 const std::vector<poplar::Tensor>& out, const Plan& plan, poplar::program::Sequence& prog,
                 const poplar::DebugContext& debugContext);

}  // namespace hlo

#endif  // HLO_LINEAR_ALGEBRA_SCHUR_H_
