// Collectives between the replicas of a graph, as in Graphcore's communication library: regular groups of
// equal size, and a fixed set of reductions. hlo/Collectives.hpp has the more general forms.
#ifndef GCL_COLLECTIVES_HPP
#define GCL_COLLECTIVES_HPP

#include <vector>

#include "poplar/Graph.hpp"
#include "poplar/OptionFlags.hpp"

namespace gcl {

// MEAN, SQUARE_ADD and LOCAL are the SDK's; the model refuses them.
enum class CollectiveOperator { ADD, MEAN, MUL, MIN, MAX, LOGICAL_AND, LOGICAL_OR, SQUARE_ADD, LOCAL };

enum class CommGroupType {
  ALL,          // one group of all replicas; the size is ignored
  CONSECUTIVE,  // of N replicas, groups of k with stride s: {0, s, .. (k-1)s}, {1, s+1, ..}, .. {ks, ks+s,
                // ..}
  ORTHOGONAL    // the same with s = N/k
};

struct CommGroup {
  CommGroup() = default;
  CommGroup(CommGroupType groupType, unsigned groupSize, unsigned replicaStride = 1)
      : type(groupType), replicaGroupSize(groupSize), replicaGroupStride(replicaStride) {}

  CommGroupType type = CommGroupType::ALL;
  unsigned replicaGroupSize = 0;
  unsigned replicaGroupStride = 1;
};

// Option "method": how the IPU-Links are used, which changes cycles and not values. "auto" (default: the
// fastest), "broadcast", "clockwise_ring", "anticlockwise_ring", "bidirectional_ring_pair",
// "meet_in_middle_ring".
//
// All functions throw poplar_error when the group does not divide the replicas or the operator does not take
// the type (ADD and MUL: FLOAT, HALF, INT, LONGLONG, UNSIGNED_LONGLONG; MIN and MAX: UNSIGNED_INT as well;
// LOGICAL_AND and LOGICAL_OR: BOOL), and invalid_option. k is the size of a group.

// Combines the members' tensors in the order of the replicas; all members get the same result. Sums and
// products of HALF are kept in FLOAT until the end.
poplar::Tensor allReduceCrossReplica(poplar::Graph& graph, const poplar::Tensor& data, CollectiveOperator op,
                                     poplar::program::Sequence& prog, const CommGroup& group,
                                     const poplar::DebugContext& debugContext = {},
                                     const poplar::OptionFlags& options = {});
poplar::Tensor allReduceCrossReplica(poplar::Graph& graph, const poplar::Tensor& data, CollectiveOperator op,
                                     poplar::program::Sequence& prog,
                                     const poplar::DebugContext& debugContext = {},
                                     const poplar::OptionFlags& options = {});
// Several tensors, of any shapes and types: one collective for each type.
std::vector<poplar::Tensor> allReduceCrossReplica(poplar::Graph& graph,
                                                  const std::vector<poplar::Tensor>& datas,
                                                  CollectiveOperator op, poplar::program::Sequence& prog,
                                                  const CommGroup& group,
                                                  const poplar::DebugContext& debugContext = {},
                                                  const poplar::OptionFlags& options = {});

// [n] -> [ceil(n / k)]: member p gets part p of the result of allReduceCrossReplica. If k does not divide n,
// the rest of the last part is the reduction of zeros.
poplar::Tensor reduceScatterCrossReplica(poplar::Graph& graph, const poplar::Tensor& data,
                                         CollectiveOperator op, poplar::program::Sequence& prog,
                                         const CommGroup& group,
                                         const poplar::DebugContext& debugContext = {},
                                         const poplar::OptionFlags& options = {});

// [...] -> [k, ...]: stacks the members' tensors.
poplar::Tensor allGatherCrossReplica(poplar::Graph& graph, const poplar::Tensor& data,
                                     poplar::program::Sequence& prog, const CommGroup& group,
                                     const poplar::DebugContext& debugContext = {},
                                     const poplar::OptionFlags& options = {});

// [k, ...] -> [k, ...]: element p goes to member p; element q of the result came from member q.
poplar::Tensor allToAllCrossReplica(poplar::Graph& graph, const poplar::Tensor& data,
                                    poplar::program::Sequence& prog, const CommGroup& group,
                                    const poplar::DebugContext& debugContext = {},
                                    const poplar::OptionFlags& options = {});

}  // namespace gcl

#endif  // GCL_COLLECTIVES_HPP
