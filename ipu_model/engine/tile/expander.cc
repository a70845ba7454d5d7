#include "engine/tile/expander.h"

#include "core/graph/expandable.h"
#include "core/operation/replica_operation.h"
#include "core/program/execute.h"
#include "ipu_model/IoTiles.hpp"
#include "ipu_model/Replicas.hpp"

namespace ipu_model {

Expander::Expander(const CompiledProgram& program, const hlo::Expansions& library)
    : library_(library),
      graph_(GraphWithIoTiles(TargetOfReplicas(program.target, program.replication_factor),
                              poplar::replication_factor(program.replication_factor), program.io_tiles)) {
  graph_.impl().variables = program.variables;
  // The replicas of a launch, each with an engine of its own, meet at variables of the same numbers: these do
  // not depend on the order in which an engine comes to its collectives.
  for (const auto& roots : {program.programs, program.functions}) {
    for (const ProgramNode* node : NodesOf(roots)) {
      if (dynamic_cast<const ReplicaOperation*>(node->operation.get()) == nullptr) continue;
      try {
        ProgramOf(*node->operation);
      } catch (const hlo::NotExpanded&) {  // thrown again if it runs
      }
    }
  }
  expanded_.clear();
}

const ProgramNode* Expander::ProgramOf(const Operation& operation) {
  if (const auto known = programs_.find(&operation); known != programs_.end()) {
    expanded_.emplace(operation.kind());
    return known->second.node().get();
  }
  const auto* const expandable = dynamic_cast<const Expandable*>(&operation);
  if (expandable == nullptr) {
    others_.emplace(operation.kind());
    return nullptr;
  }
  std::vector<poplar::Tensor> in, out;
  for (const View& view : operation.inputs) in.push_back(poplar::Tensor::fromView(view, &graph_.impl()));
  for (const View& view : operation.outputs) out.push_back(poplar::Tensor::fromView(view, &graph_.impl()));
  poplar::program::Sequence program;
  try {
    expandable->Expand(library_, graph_, in, out, program);
  } catch (const hlo::NotExpanded& error) {
    throw hlo::NotExpanded("operation '" + operation.name + "' (" + std::string(operation.kind()) +
                           "): " + error.what());
  }
  for (const ProgramNode* node : NodesOf({program.node()})) {
    if (auto* const execute = dynamic_cast<Execute*>(node->operation.get())) execute->Resolve(&graph_.impl());
  }
  expanded_.emplace(operation.kind());
  return programs_.emplace(&operation, std::move(program)).first->second.node().get();
}

ExpandedKinds Expander::kinds() const {
  return {{expanded_.begin(), expanded_.end()}, {others_.begin(), others_.end()}};
}

}  // namespace ipu_model
