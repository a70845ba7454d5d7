// Sorting along one dimension. Stable. Source: PopLibs, include/popops/Sort.hpp.
// All functions throw poplar::poplar_error when shapes or types do not fit.
#ifndef POPOPS_SORT_HPP
#define POPOPS_SORT_HPP

#include "poplar/Graph.hpp"

namespace popops {

// Ascending copy of t.
poplar::Tensor sort(poplar::Graph& graph, const poplar::Tensor& t, unsigned dim,
                    poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {});
void sortInPlace(poplar::Graph& graph, const poplar::Tensor& t, unsigned dim, poplar::program::Sequence& prog,
                 const poplar::DebugContext& debugContext = {});

// Returns v in the order that sorts k; both have the same shape.
poplar::Tensor sortKeyValue(poplar::Graph& graph, const poplar::Tensor& k, const poplar::Tensor& v,
                            unsigned dim, poplar::program::Sequence& prog,
                            const poplar::DebugContext& debugContext = {});
void sortKeyValueInPlace(poplar::Graph& graph, const poplar::Tensor& k, const poplar::Tensor& v, unsigned dim,
                         poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {});

}  // namespace popops

#endif  // POPOPS_SORT_HPP
