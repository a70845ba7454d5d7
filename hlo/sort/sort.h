// Sort and top-k as vertices.
#ifndef HLO_SORT_SORT_H_
#define HLO_SORT_SORT_H_

#include <vector>

#include "hlo/Expression.hpp"
#include "hlo/Plan.hpp"
#include "poplar/Graph.hpp"

namespace hlo {

// As Expansions::sort and Expansions::topK.
void expandSort(poplar::Graph& graph, const std::vector<poplar::Tensor>& operands, std::size_t dimension,
                const Expression& comparator, const std::vector<poplar::Tensor>& out, const Plan& plan,
                poplar::program::Sequence& prog, const poplar::DebugContext& debugContext);
void expandTopK(poplar::Graph& graph, const poplar::Tensor& operand, bool largest,
                const poplar::Tensor& values, const poplar::Tensor& indices, const Plan& plan,
                poplar::program::Sequence& prog, const poplar::DebugContext& debugContext);

}  // namespace hlo

#endif  // HLO_SORT_SORT_H_
