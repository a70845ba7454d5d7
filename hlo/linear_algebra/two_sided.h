// Reductions by reflections from both sides as vertices.
#ifndef HLO_LINEAR_ALGEBRA_TWO_SIDED_H_
#define HLO_LINEAR_ALGEBRA_TWO_SIDED_H_

#include <vector>

#include "hlo/Plan.hpp"
#include "hlo/TwoSidedForm.hpp"
#include "poplar/Graph.hpp"

namespace hlo {

// As Expansions::twoSided.
void expandTwoSided(poplar::Graph& graph, TwoSidedForm form, const poplar::Tensor& a,
                    const std::vector<poplar::Tensor>& out, const Plan& plan, poplar::program::Sequence& prog,
                    const poplar::DebugContext& debugContext);

}  // namespace hlo

#endif  // HLO_LINEAR_ALGEBRA_TWO_SIDED_H_
