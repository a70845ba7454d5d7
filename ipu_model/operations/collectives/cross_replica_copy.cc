// poplar::program::CrossReplicaCopy, as a permutation of the replicas' tensors.
#include <string>
#include <utility>
#include <vector>

#include "core/graph/graph_impl.h"
#include "core/program/copy.h"
#include "core/program/program_node.h"
#include "operations/collectives/replica_collective.h"
#include "poplar/Program.hpp"
#include "poplar/exceptions.hpp"

namespace poplar::program {

CrossReplicaCopy::CrossReplicaCopy(const Tensor& src, const Tensor& dst,
                                   const std::map<unsigned, unsigned>& replicaMap,
                                   const DebugContext& debugContext)
    : Program(Sequence(debugContext)) {
  const auto fail = [](const std::string& reason) {
    throw control_program_error("CrossReplicaCopy: " + reason);
  };
  if (!src.valid() || !dst.valid()) fail("a tensor is empty (default-constructed)");
  auto* const graph = static_cast<ipu_model::GraphImpl*>(const_cast<void*>(src.graph()));
  if (graph == nullptr) fail("the graph of the tensor is gone");
  if (dst.graph() != graph) fail("the tensors are of different graphs");
  if (src.numElements() != dst.numElements() || src.elementType() != dst.elementType()) {
    fail(src.elementType().toString() + src.shapeToString() +
         " does not match the number or type of elements of " + dst.elementType().toString() +
         dst.shapeToString());
  }
  const unsigned replicas = graph->replication_factor;
  std::vector<int> sources(replicas, -1);
  for (const auto& [source, destination] : replicaMap) {
    if (source >= replicas || destination >= replicas) {
      fail("the map has the pair " + std::to_string(source) + ", " + std::to_string(destination) +
           "; the graph has " + std::to_string(replicas) + " replicas");
    }
    if (sources[destination] >= 0) fail("replica " + std::to_string(destination) + " is a destination twice");
    sources[destination] = static_cast<int>(source);
  }
  for (unsigned r = 0; r < replicas; ++r) {
    if (sources[r] < 0) fail("replica " + std::to_string(r) + " is no destination");
  }
  if (src.numElements() == 0) return;
  std::vector<unsigned> all(replicas);
  for (unsigned r = 0; r < replicas; ++r) all[r] = r;

  // What is sent and received are dense variables, spread as the destination.
  const std::size_t n = src.numElements();
  const auto buffer = [&](const char* name) {
    return graph->TensorOf(graph->AddVariable(
        src.elementType().id(), {1, static_cast<std::int64_t>(n)},
        DebugContext(debugContext, name).getPathName(),
        ipu_model::LinearMapping(graph->target, src.elementType().id(), static_cast<std::int64_t>(n))));
  };
  const Tensor sent = buffer("sent"), received = buffer("received");
  auto operation = std::make_shared<ipu_model::ReplicaCollective>(
      ipu_model::CollectivePattern::kPermute, ipu_model::ReplicaGroups{all}, std::move(sources), replicas,
      ipu_model::LinkMethod::kAuto);
  operation->name = debugContext.getPathName();
  sent.asView(&operation->inputs.emplace_back());
  received.asView(&operation->outputs.emplace_back());
  operation->Prepare();
  auto exchange = std::make_shared<ipu_model::ProgramNode>();
  exchange->kind = ipu_model::ProgramKind::kOperation;
  exchange->name = operation->name;
  exchange->operation = std::move(operation);
  node_->children = {Copy(src.flatten(), sent.flatten(), false, debugContext).node(), std::move(exchange),
                     Copy(received.flatten(), dst.flatten(), false, debugContext).node()};
}

}  // namespace poplar::program
