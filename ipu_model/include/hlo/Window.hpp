// reduce_window and select_and_scatter in StableHLO's general forms. Source: the StableHLO specification. All
// functions throw poplar::poplar_error when shapes, types or expressions do not fit.
#ifndef HLO_WINDOW_HPP
#define HLO_WINDOW_HPP

#include <cstdint>
#include <vector>

#include "hlo/Expression.hpp"
#include "hlo/WindowGeometry.hpp"
#include "poplar/Graph.hpp"

namespace hlo {

// One entry per dimension; paddings may be negative.
struct WindowParameters {
  WindowGeometry geometry;
  std::vector<std::int64_t> paddingHigh;
};

// The number of window positions per dimension. Throws poplar_error when the numbers do not fit.
std::vector<std::size_t> windowOutputShape(const std::vector<std::size_t>& operand,
                                           const WindowParameters& params);

// Reduces every window of the tensors, which have one shape. `combiner` has inputs acc_0..acc_{n-1},
// value_0..value_{n-1} and n outputs; `inits` are scalars. Elements in the padding do not take part. Pooling
// (one addition, multiplication, maximum or minimum) and cumulative operations (a one-sided window over a
// whole dimension) have kernels of their own.
std::vector<poplar::Tensor> reduceWindow(poplar::Graph& graph, const std::vector<poplar::Tensor>& tensors,
                                         const std::vector<poplar::Tensor>& inits,
                                         const WindowParameters& params, const Expression& combiner,
                                         poplar::program::Sequence& prog,
                                         const poplar::DebugContext& debugContext = {});

// Every window of `operand` selects one element: the first, replaced by a later one where select(selected,
// candidate) is false. The window's element of `source` is combined into the selected position of the result
// by `scatter`(result, source); the result starts as the scalar `init`. No dilations.
poplar::Tensor selectAndScatter(poplar::Graph& graph, const poplar::Tensor& operand,
                                const poplar::Tensor& source, const poplar::Tensor& init,
                                const WindowParameters& params, const Expression& select,
                                const Expression& scatter, poplar::program::Sequence& prog,
                                const poplar::DebugContext& debugContext = {});

}  // namespace hlo

#endif  // HLO_WINDOW_HPP
