// hlo/Collectives.hpp over Graphcore's SDK: for graphs of one replica, whose runtime this is. Regular groups
// are GCL's.
#include "hlo/Collectives.hpp"

#include "hlo/Elementwise.hpp"
#include "ipu_model/Model.hpp"
#include "poplar/exceptions.hpp"

namespace hlo {
namespace {

using poplar::DebugContext;
using poplar::Graph;
using poplar::OptionFlags;
using poplar::Tensor;
using poplar::program::Sequence;

// What the only replica receives: its own tensor if it is in a group, else zeros.
Tensor received(Graph& graph, const Tensor& data, bool sends, Sequence& prog,
                const DebugContext& debugContext) {
  if (graph.getReplicationFactor() != 1) {
    throw poplar::poplar_error("a collective of " + std::to_string(graph.getReplicationFactor()) +
                               " replicas runs on the IPU model only: this runtime has an engine for each "
                               "replica, and Poplar one for all");
  }
  if (sends) return data;
  const Tensor zeros = graph.clone(data, {debugContext, "zeros"});
  fill(graph, zeros, std::string(ipu_model::SizeOf(ipu_model::DTypeOf(data.elementType())), '\0'), prog,
       debugContext);
  return zeros;
}
bool hasMember(const ReplicaGroups& groups) {
  for (const std::vector<unsigned>& group : groups)
    if (group == std::vector<unsigned>{0}) return true;
  return false;
}

}  // namespace

Tensor allGather(Graph& graph, const Tensor& data, std::size_t, const ReplicaGroups& groups, Sequence& prog,
                 const DebugContext& debugContext, const OptionFlags&) {
  return received(graph, data, hasMember(groups), prog, debugContext);
}
Tensor allToAll(Graph& graph, const Tensor& data, std::size_t, std::size_t, const ReplicaGroups& groups,
                Sequence& prog, const DebugContext& debugContext, const OptionFlags&) {
  return received(graph, data, hasMember(groups), prog, debugContext);
}
Tensor allReduce(Graph& graph, const Tensor& data, const ReplicaGroups& groups, const Expression&,
                 Sequence& prog, const DebugContext& debugContext, const OptionFlags&) {
  return received(graph, data, hasMember(groups), prog, debugContext);
}
std::vector<Tensor> allReduce(Graph& graph, const std::vector<Tensor>& datas, const ReplicaGroups& groups,
                              const Expression&, Sequence& prog, const DebugContext& debugContext,
                              const OptionFlags&) {
  std::vector<Tensor> results;
  for (const Tensor& data : datas)
    results.push_back(received(graph, data, hasMember(groups), prog, debugContext));
  return results;
}
Tensor reduceScatter(Graph& graph, const Tensor& data, std::size_t, const ReplicaGroups& groups,
                     const Expression&, Sequence& prog, const DebugContext& debugContext,
                     const OptionFlags&) {
  return received(graph, data, hasMember(groups), prog, debugContext);
}
Tensor permute(Graph& graph, const Tensor& data, const std::vector<int>& sources, Sequence& prog,
               const DebugContext& debugContext) {
  return received(graph, data, !sources.empty() && sources[0] == 0, prog, debugContext);
}
Tensor broadcast(Graph& graph, const Tensor& data, const ReplicaGroups& groups, Sequence& prog,
                 const DebugContext& debugContext) {
  return received(graph, data, hasMember(groups), prog, debugContext);
}

}  // namespace hlo
