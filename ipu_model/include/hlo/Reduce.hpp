// StableHLO reduce: any associative body, several operands. Source: the StableHLO specification, reduce.
// PopLibs' forms are in popops/Reduce.hpp.
#ifndef HLO_REDUCE_HPP
#define HLO_REDUCE_HPP

#include <cstddef>
#include <vector>

#include "hlo/Expression.hpp"
#include "poplar/Graph.hpp"

namespace hlo {

// Reduces `tensors` (one shape) over `dims`; the results have the other dimensions. `body` has the inputs
// acc_0.., value_0.. and as many outputs as there are tensors. Each init, a scalar, is combined exactly once.
// Sums and products of narrow floats are kept in f32 until the end; `unrounded`: the results as well. Throws
// poplar_error when shapes or types do not match.
std::vector<poplar::Tensor> reduce(poplar::Graph& graph, const std::vector<poplar::Tensor>& tensors,
                                   const std::vector<poplar::Tensor>& inits,
                                   const std::vector<std::size_t>& dims, const Expression& body,
                                   poplar::program::Sequence& prog,
                                   const poplar::DebugContext& debugContext = {}, bool unrounded = false);

}  // namespace hlo

#endif  // HLO_REDUCE_HPP
