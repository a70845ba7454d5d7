// Sorting in StableHLO's general form, and top_k. PopLibs' forms are in popops/Sort.hpp and popops/TopK.hpp.
// All functions throw poplar::poplar_error when shapes, types or the comparator do not fit.
#ifndef HLO_SORT_HPP
#define HLO_SORT_HPP

#include <cstddef>
#include <utility>
#include <vector>

#include "hlo/Expression.hpp"
#include "poplar/Graph.hpp"

namespace hlo {

// Stable sort of several operands of one shape along `dimension`. `comparator` has the inputs a_0, b_0, a_1,
// b_1, ... and one kPred output: a goes before b.
std::vector<poplar::Tensor> sort(poplar::Graph& graph, const std::vector<poplar::Tensor>& operands,
                                 std::size_t dimension, const Expression& comparator,
                                 poplar::program::Sequence& prog,
                                 const poplar::DebugContext& debugContext = {});

// As sort. The last result has the positions of the elements along `dimension` before the sort (s32).
std::vector<poplar::Tensor> sortWithPositions(poplar::Graph& graph,
                                              const std::vector<poplar::Tensor>& operands,
                                              std::size_t dimension, const Expression& comparator,
                                              poplar::program::Sequence& prog,
                                              const poplar::DebugContext& debugContext = {});

// A variable that operand `number` of such a sort of operands of these types can lie in, so that sortInPlace
// needs no copy of it.
poplar::Tensor createSortOperand(poplar::Graph& graph, const std::vector<poplar::Type>& types,
                                 std::size_t number, const std::vector<std::size_t>& shape,
                                 std::size_t dimension, const Expression& comparator, bool positions,
                                 const poplar::DebugContext& debugContext = {});

// Sorts the operands where they are. If `positions`, returns those of the elements before (s32).
std::vector<poplar::Tensor> sortInPlace(poplar::Graph& graph, const std::vector<poplar::Tensor>& operands,
                                        std::size_t dimension, const Expression& comparator, bool positions,
                                        poplar::program::Sequence& prog,
                                        const poplar::DebugContext& debugContext = {});

// The k largest (smallest) along the last dimension in the IEEE total order, largest (smallest) first, and
// their positions (s32); among equals the lower position comes first.
std::pair<poplar::Tensor, poplar::Tensor> topK(poplar::Graph& graph, const poplar::Tensor& operand,
                                               std::size_t k, poplar::program::Sequence& prog,
                                               bool largest = true,
                                               const poplar::DebugContext& debugContext = {});

}  // namespace hlo

#endif  // HLO_SORT_HPP
