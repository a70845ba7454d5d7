// The largest or smallest elements of the last dimension.
#ifndef POPOPS_TOPK_HPP
#define POPOPS_TOPK_HPP

#include <utility>

#include "poplar/Graph.hpp"

namespace popops {

enum class SortOrder { NONE, ASCENDING, DESCENDING };

struct TopKParams {
  TopKParams(unsigned k, bool largest, SortOrder sortOrder) : k(k), largest(largest), sortOrder(sortOrder) {}
  unsigned k;
  bool largest;
  SortOrder sortOrder;
};

poplar::Tensor topK(poplar::Graph& graph, poplar::program::Sequence& prog, const poplar::Tensor& t,
                    const TopKParams& params, const poplar::DebugContext& debugContext = {});
// Returns the values, and their positions in t (s32).
std::pair<poplar::Tensor, poplar::Tensor> topKWithPermutation(poplar::Graph& graph,
                                                              poplar::program::Sequence& prog,
                                                              const poplar::Tensor& t,
                                                              const TopKParams& params,
                                                              const poplar::DebugContext& debugContext = {});

}  // namespace popops

#endif  // POPOPS_TOPK_HPP
