// Collectives between the replicas of a graph over any groups of them and with any reduction: what the
// functions of gcl/ become, and what gcl/ does not express.
#ifndef HLO_COLLECTIVES_HPP
#define HLO_COLLECTIVES_HPP

#include <cstddef>
#include <vector>

#include "hlo/Expression.hpp"
#include "poplar/Graph.hpp"
#include "poplar/OptionFlags.hpp"

namespace hlo {

// Disjoint lists of replica indices, all of one length but for allReduce. Results of replicas in no group are
// those of zeros. All functions throw poplar_error for groups that are not like that, or when a
// dimension does not divide. Options are those of gcl/Collectives.hpp.
using ReplicaGroups = std::vector<std::vector<unsigned>>;

// The members' tensors one after the other along `dimension`.
poplar::Tensor allGather(poplar::Graph& graph, const poplar::Tensor& data, std::size_t dimension,
                         const ReplicaGroups& groups, poplar::program::Sequence& prog,
                         const poplar::DebugContext& debugContext = {},
                         const poplar::OptionFlags& options = {});

// Part p of `data` along `splitDimension` goes to member p; what arrives lies along `concatDimension`.
poplar::Tensor allToAll(poplar::Graph& graph, const poplar::Tensor& data, std::size_t splitDimension,
                        std::size_t concatDimension, const ReplicaGroups& groups,
                        poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {},
                        const poplar::OptionFlags& options = {});

// The members' tensors combined with `body` (two inputs of data's type, one output), in the order of the
// members; the same on all of them. Sums and products of narrow floats are kept in f32 until the end. The
// groups may have different lengths.
poplar::Tensor allReduce(poplar::Graph& graph, const poplar::Tensor& data, const ReplicaGroups& groups,
                         const Expression& body, poplar::program::Sequence& prog,
                         const poplar::DebugContext& debugContext = {},
                         const poplar::OptionFlags& options = {});
// Several tensors of one type in one collective.
std::vector<poplar::Tensor> allReduce(poplar::Graph& graph, const std::vector<poplar::Tensor>& datas,
                                      const ReplicaGroups& groups, const Expression& body,
                                      poplar::program::Sequence& prog,
                                      const poplar::DebugContext& debugContext = {},
                                      const poplar::OptionFlags& options = {});

// Part p along `dimension` of what allReduce gives, on member p.
poplar::Tensor reduceScatter(poplar::Graph& graph, const poplar::Tensor& data, std::size_t dimension,
                             const ReplicaGroups& groups, const Expression& body,
                             poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {},
                             const poplar::OptionFlags& options = {});

// Replica r receives the tensor of replica sources[r], or zeros when that is negative.
poplar::Tensor permute(poplar::Graph& graph, const poplar::Tensor& data, const std::vector<int>& sources,
                       poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {});

// Every member receives the tensor of its group's first.
poplar::Tensor broadcast(poplar::Graph& graph, const poplar::Tensor& data, const ReplicaGroups& groups,
                         poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {});

}  // namespace hlo

#endif  // HLO_COLLECTIVES_HPP
