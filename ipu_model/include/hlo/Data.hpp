// Slicing, indexing and ordering in StableHLO's general forms, which PopLibs has no functions for.
#ifndef HLO_DATA_HPP
#define HLO_DATA_HPP

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/elementwise/expression.h"
#include "kernels/index/indexed_window.h"
#include "poplar/Graph.hpp"

namespace hlo {

// operand[starts : starts + sizes], one scalar integer start per dimension, clamped so that the slice is
// inside.
poplar::Tensor dynamicSlice(poplar::Graph& graph, const poplar::Tensor& operand,
                            const std::vector<poplar::Tensor>& starts, const std::vector<std::size_t>& sizes,
                            poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {});

// `operand` with `update` at the clamped starts. In place: writes over `operand`, which must be one strided
// view without aliases, and returns it; otherwise a new tensor.
poplar::Tensor dynamicUpdateSlice(poplar::Graph& graph, const poplar::Tensor& operand,
                                  const poplar::Tensor& update, const std::vector<poplar::Tensor>& starts,
                                  poplar::program::Sequence& prog, bool inPlace = false,
                                  const poplar::DebugContext& debugContext = {});

// StableHLO gather; starts are clamped.
poplar::Tensor gather(poplar::Graph& graph, const poplar::Tensor& operand, const poplar::Tensor& indices,
                      const ipu_model::WindowDims& dims, const std::vector<std::size_t>& sliceSizes,
                      poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {});

// A tensor of `shape` that lies where a gather with these indices and sizes, or a scatter with such windows,
// costs least, passes over the whole of it counted as well.
poplar::Tensor createGatherInput(poplar::Graph& graph, const poplar::Type& type,
                                 const std::vector<std::size_t>& shape,
                                 const std::vector<std::size_t>& indicesShape,
                                 const ipu_model::WindowDims& dims,
                                 const std::vector<std::size_t>& sliceSizes,
                                 const poplar::DebugContext& debugContext = {});

// StableHLO scatter over several operands of one shape. `update` has the inputs operand_0.., update_0.. and
// as many outputs as operands. Updates whose window is not wholly inside are skipped; updates of one element
// are applied in index order. In place: as dynamicUpdateSlice.
std::vector<poplar::Tensor> scatter(poplar::Graph& graph, const std::vector<poplar::Tensor>& operands,
                                    const poplar::Tensor& indices, const std::vector<poplar::Tensor>& updates,
                                    const ipu_model::WindowDims& dims, bool uniqueIndices,
                                    const ipu_model::Expression& update, poplar::program::Sequence& prog,
                                    bool inPlace = false, const poplar::DebugContext& debugContext = {});

// Stable sort of several operands of one shape along `dimension`. `comparator` has the inputs a_0, b_0, a_1,
// b_1, ... and one kPred output: a goes before b.
std::vector<poplar::Tensor> sort(poplar::Graph& graph, const std::vector<poplar::Tensor>& operands,
                                 std::size_t dimension, const ipu_model::Expression& comparator,
                                 poplar::program::Sequence& prog,
                                 const poplar::DebugContext& debugContext = {});

// The k largest (smallest) along the last dimension in the IEEE total order, largest (smallest) first, and
// their positions (s32); among equals the lower position comes first.
std::pair<poplar::Tensor, poplar::Tensor> topK(poplar::Graph& graph, const poplar::Tensor& operand,
                                               std::size_t k, poplar::program::Sequence& prog,
                                               bool largest = true,
                                               const poplar::DebugContext& debugContext = {});

}  // namespace hlo

#endif  // HLO_DATA_HPP
