// The index of the replica that runs the program.
#include <cstring>
#include <memory>

#include "hlo/Collectives.hpp"
#include "pjrt_plugin/ipu_model/core/graph_impl.h"
#include "pjrt_plugin/ipu_model/core/replica_operation.h"
#include "pjrt_plugin/ipu_model/core/serialise.h"
#include "pjrt_plugin/ipu_model/operations/replica_exchange.h"

namespace ipu_model {
namespace {

class ReplicaIndex : public ReplicaOperation {
 public:
  std::string_view kind() const override { return "poplar::replicationIndex"; }
  void Write(Writer&) const override {}
  void Exchange(HostContext&, const Replica& replica, const std::vector<HostTensor>&,
                const std::vector<HostTensor>& out) const override {
    std::memcpy(out[0].data, &replica.index, sizeof(replica.index));
  }
  LinkUse Links(const TargetModel&) const override { return {}; }
};

}  // namespace

std::unique_ptr<Operation> ReadReplicaIndex(Reader&) { return std::make_unique<ReplicaIndex>(); }

}  // namespace ipu_model

namespace hlo {

poplar::Tensor replicaIndex(poplar::Graph& graph, poplar::program::Sequence& prog,
                            const poplar::DebugContext& debugContext) {
  using namespace ipu_model;
  auto operation = std::make_unique<ReplicaIndex>();
  operation->name = debugContext.getPathName();
  poplar::Tensor index =
      NewTensor(graph, DType::kU32, {}, LinearMapping(graph.getTarget(), DType::kU32, 1), operation->name);
  index.asView(&operation->outputs.emplace_back());
  AddOperation(prog, std::move(operation));
  return index;
}

}  // namespace hlo
