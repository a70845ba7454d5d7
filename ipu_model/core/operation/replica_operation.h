// Operations in which all replicas of a graph take part. Each replica is run by its own engine.
#ifndef IPU_MODEL_CORE_OPERATION_REPLICA_OPERATION_H_
#define IPU_MODEL_CORE_OPERATION_REPLICA_OPERATION_H_

#include <cstdint>
#include <stdexcept>
#include <vector>

#include "core/operation/operation.h"
#include "kernels/collectives/replicas.h"

namespace ipu_model {

// The use of the links between IPUs by one operation, for one IPU.
struct LinkUse {
  std::uint64_t cycles = 0, bytes = 0;
  unsigned syncs = 0;  // syncs of all IPUs
};

// An operation without vertices: tiles send and receive over the links. Both engines call Communicate instead
// of Run.
class ReplicaOperation : public Operation {
 public:
  virtual void Communicate(HostContext& context, const Replica& replica, const std::vector<HostTensor>& in,
                           const std::vector<HostTensor>& out) const = 0;
  virtual LinkUse Links(const TargetModel& target) const = 0;

  void Run(HostContext&, const std::vector<HostTensor>&, const std::vector<HostTensor>&) const final {
    throw std::logic_error("a collective operation must be run with its replica, by Communicate");
  }
  TilePlan Plan(const DeviceContext&) const final { return {}; }
};

}  // namespace ipu_model

#endif  // IPU_MODEL_CORE_OPERATION_REPLICA_OPERATION_H_
