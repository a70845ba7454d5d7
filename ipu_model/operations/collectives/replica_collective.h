// Moves tensors between the replicas of a graph: the one operation below all collectives.
#ifndef IPU_MODEL_OPERATIONS_COLLECTIVES_REPLICA_COLLECTIVE_H_
#define IPU_MODEL_OPERATIONS_COLLECTIVES_REPLICA_COLLECTIVE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "core/graph/expandable.h"
#include "core/operation/replica_operation.h"
#include "operations/collectives/collectives_cost.h"

namespace ipu_model {

// How pieces move between the n members of a group. The first dimension of input and output counts pieces.
enum class CollectivePattern : std::uint8_t {  // written to executables: append only
  kGather = 0,                                 // 1 piece in, n out: piece p comes from member p
  kTranspose,  // n pieces in, n out: piece p is the one that member p has for this member
  kReduce,     // like kTranspose, for a reduction: the links may combine pieces on the way
  kPermute,    // 1 piece in, 1 out: the piece of replica sources[r], zeros if negative
  kCount
};

class ReplicaCollective : public ReplicaOperation, public Expandable {
 public:
  // The groups are disjoint and have the same size. `replicas`: number of replicas of the graph, in a ring.
  ReplicaCollective(CollectivePattern pattern, ReplicaGroups groups, std::vector<int> sources,
                    unsigned replicas, LinkMethod method);

  std::string_view kind() const override { return "gcl::collective"; }
  void Write(Writer& writer) const override;
  bool OperandsFit(unsigned num_tiles) const override;
  void Prepare() override;
  void Communicate(HostContext& context, const Replica& replica, const std::vector<HostTensor>& in,
                   const std::vector<HostTensor>& out) const override;
  LinkUse Links(const TargetModel& target) const override;
  void Expand(const hlo::Expansions& library, poplar::Graph& graph, const std::vector<poplar::Tensor>& in,
              const std::vector<poplar::Tensor>& out, poplar::program::Sequence& prog) const override;

 private:
  CollectivePattern pattern_;
  ReplicaGroups groups_;
  std::vector<int> sources_;  // by replica; only for kPermute
  unsigned replicas_;
  LinkMethod method_;
};

std::unique_ptr<Operation> ReadReplicaCollective(Reader& reader);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_COLLECTIVES_REPLICA_COLLECTIVE_H_
