// Slices, gather and scatter at run-time positions in StableHLO's general forms. Source: the StableHLO
// specification. PopLibs' forms are in popops/DynamicSlice.hpp, popops/Gather.hpp and popops/Scatter.hpp. All
// functions throw poplar::poplar_error when shapes, types or dimension numbers do not fit.
#ifndef HLO_INDEX_HPP
#define HLO_INDEX_HPP

#include <cstddef>
#include <cstdint>
#include <vector>

#include "hlo/Expression.hpp"
#include "hlo/WindowDims.hpp"
#include "poplar/Graph.hpp"

namespace hlo {

// operand[starts : starts + sizes], one scalar integer start per dimension, clamped so that the slice is
// inside.
poplar::Tensor dynamicSlice(poplar::Graph& graph, const poplar::Tensor& operand,
                            const std::vector<poplar::Tensor>& starts, const std::vector<std::size_t>& sizes,
                            poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {});

// Returns `operand` with `update` at the clamped starts. In place: overwrites `operand`, which must be one
// strided view without aliases, and returns it; otherwise returns a new tensor.
poplar::Tensor dynamicUpdateSlice(poplar::Graph& graph, const poplar::Tensor& operand,
                                  const poplar::Tensor& update, const std::vector<poplar::Tensor>& starts,
                                  poplar::program::Sequence& prog, bool inPlace = false,
                                  const poplar::DebugContext& debugContext = {});

// StableHLO gather; starts are clamped.
poplar::Tensor gather(poplar::Graph& graph, const poplar::Tensor& operand, const poplar::Tensor& indices,
                      const WindowDims& dims, const std::vector<std::size_t>& sliceSizes,
                      poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {});

// Creates a tensor of `shape` with the tile mapping for which a gather with these indices and sizes, or a
// scatter with such windows, costs least; with `hasPasses` the cost includes operations on the whole tensor.
poplar::Tensor createGatherInput(poplar::Graph& graph, const poplar::Type& type,
                                 const std::vector<std::size_t>& shape,
                                 const std::vector<std::size_t>& indicesShape, const WindowDims& dims,
                                 const std::vector<std::size_t>& sliceSizes,
                                 const poplar::DebugContext& debugContext = {}, bool hasPasses = true);

// StableHLO scatter over several operands of one shape. `update` has the inputs operand_0.., update_0.. and
// as many outputs as operands. Updates whose window is not wholly inside are skipped; updates of one element
// are applied in index order. In place: as dynamicUpdateSlice.
std::vector<poplar::Tensor> scatter(poplar::Graph& graph, const std::vector<poplar::Tensor>& operands,
                                    const poplar::Tensor& indices, const std::vector<poplar::Tensor>& updates,
                                    const WindowDims& dims, bool uniqueIndices, const Expression& update,
                                    poplar::program::Sequence& prog, bool inPlace = false,
                                    const poplar::DebugContext& debugContext = {});

}  // namespace hlo

#endif  // HLO_INDEX_HPP
