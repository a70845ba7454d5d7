// Slices and updates at run-time positions. Source: PopLibs, include/popops/DynamicSlice.hpp.
// All functions throw poplar::poplar_error when shapes or types do not fit.
#ifndef POPOPS_DYNAMICSLICE_HPP
#define POPOPS_DYNAMICSLICE_HPP

#include <cstddef>
#include <vector>

#include "poplar/Graph.hpp"

namespace popops {

// Creates a variable whose slices of `sizes` in the dimensions `dims` need no exchange of the variable: these
// dimensions are whole on every tile (cut only if a tile could not hold them), the others are spread with at
// least minGrainSize elements per tile.
poplar::Tensor createSliceableTensor(poplar::Graph& graph, const poplar::Type& type,
                                     const std::vector<std::size_t>& shape,
                                     const std::vector<std::size_t>& dims,
                                     const std::vector<std::size_t>& sizes, std::size_t minGrainSize = 0,
                                     const poplar::DebugContext& debugContext = {});

// Slices t in `dims` at `offset` [dims.size()], of any integer type, clamped; other dimensions stay whole.
poplar::Tensor dynamicSlice(poplar::Graph& graph, const poplar::Tensor& t, const poplar::Tensor& offset,
                            const std::vector<std::size_t>& dims, const std::vector<std::size_t>& sizes,
                            poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {});

// Overwrites the slice of t with s, in place.
void dynamicUpdate(poplar::Graph& graph, const poplar::Tensor& t, const poplar::Tensor& s,
                   const poplar::Tensor& offset, const std::vector<std::size_t>& dims,
                   const std::vector<std::size_t>& sizes, poplar::program::Sequence& prog,
                   const poplar::DebugContext& debugContext = {});

// One slice per row of offsets [N, dims.size()]: [N, ...t.shape with sizes at dims].
poplar::Tensor multiSlice(poplar::Graph& graph, const poplar::Tensor& t, const poplar::Tensor& offsets,
                          const std::vector<std::size_t>& dims, const std::vector<std::size_t>& sizes,
                          poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {});

// Writes (adds) the slices s [N, ...] into t, in place; slices that do not fit are skipped.
void multiUpdate(poplar::Graph& graph, const poplar::Tensor& t, const poplar::Tensor& s,
                 const poplar::Tensor& offsets, const std::vector<std::size_t>& dims,
                 const std::vector<std::size_t>& sizes, poplar::program::Sequence& prog,
                 const poplar::DebugContext& debugContext = {});
void multiUpdateAdd(poplar::Graph& graph, const poplar::Tensor& t, const poplar::Tensor& s,
                    const poplar::Tensor& offsets, const std::vector<std::size_t>& dims,
                    const std::vector<std::size_t>& sizes, poplar::program::Sequence& prog,
                    const poplar::DebugContext& debugContext = {});

}  // namespace popops

#endif  // POPOPS_DYNAMICSLICE_HPP
