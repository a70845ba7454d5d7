// Collectives between the replicas of a graph, over any groups of replicas and with any reduction. The
// functions of gcl/ are special cases of these.
#ifndef HLO_COLLECTIVES_HPP
#define HLO_COLLECTIVES_HPP

#include <cstddef>
#include <vector>

#include "hlo/Expression.hpp"
#include "poplar/Graph.hpp"
#include "poplar/OptionFlags.hpp"

namespace hlo {

// Disjoint lists of replica indices, all of the same length except in allReduce. A replica in no group gets
// the result for zeros. All functions throw poplar_error for other groups, or when a dimension does not
// divide. Options are those of gcl/Collectives.hpp.
using ReplicaGroups = std::vector<std::vector<unsigned>>;

// Concatenates the members' tensors along `dimension`.
poplar::Tensor allGather(poplar::Graph& graph, const poplar::Tensor& data, std::size_t dimension,
                         const ReplicaGroups& groups, poplar::program::Sequence& prog,
                         const poplar::DebugContext& debugContext = {},
                         const poplar::OptionFlags& options = {});

// Part p of `data` along `splitDimension` goes to member p; the received parts are concatenated along
// `concatDimension`.
poplar::Tensor allToAll(poplar::Graph& graph, const poplar::Tensor& data, std::size_t splitDimension,
                        std::size_t concatDimension, const ReplicaGroups& groups,
                        poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {},
                        const poplar::OptionFlags& options = {});

// Combines the members' tensors with `body` (two inputs of data's type, one output) in the order of the
// members; all members get the same result. Sums and products of narrow floats are kept in f32 until the end.
// The groups may have different lengths.
poplar::Tensor allReduce(poplar::Graph& graph, const poplar::Tensor& data, const ReplicaGroups& groups,
                         const Expression& body, poplar::program::Sequence& prog,
                         const poplar::DebugContext& debugContext = {},
                         const poplar::OptionFlags& options = {});
// The same for several tensors of one type, in one collective.
std::vector<poplar::Tensor> allReduce(poplar::Graph& graph, const std::vector<poplar::Tensor>& datas,
                                      const ReplicaGroups& groups, const Expression& body,
                                      poplar::program::Sequence& prog,
                                      const poplar::DebugContext& debugContext = {},
                                      const poplar::OptionFlags& options = {});

// Member p gets part p, along `dimension`, of the result of allReduce.
poplar::Tensor reduceScatter(poplar::Graph& graph, const poplar::Tensor& data, std::size_t dimension,
                             const ReplicaGroups& groups, const Expression& body,
                             poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {},
                             const poplar::OptionFlags& options = {});

// Replica r receives the tensor of replica sources[r], or zeros when that is negative.
poplar::Tensor permute(poplar::Graph& graph, const poplar::Tensor& data, const std::vector<int>& sources,
                       poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {});

// Every member receives the tensor of the first member of its group.
poplar::Tensor broadcast(poplar::Graph& graph, const poplar::Tensor& data, const ReplicaGroups& groups,
                         poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {});

}  // namespace hlo

#endif  // HLO_COLLECTIVES_HPP
