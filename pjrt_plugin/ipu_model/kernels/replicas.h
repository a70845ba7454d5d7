// How the replicas of one launch, each run by a thread of its own, meet to exchange tensors.
#ifndef JAX_IPU_KERNELS_REPLICAS_H_
#define JAX_IPU_KERNELS_REPLICAS_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "pjrt_plugin/ipu_model/kernels/host_tensor.h"

namespace ipu_model {

// A replica waits for one that will not come.
struct ReplicaMissing : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class ReplicaGroup {
 public:
  explicit ReplicaGroup(unsigned size) : left_(size) {}
  ReplicaGroup(const ReplicaGroup&) = delete;
  ReplicaGroup& operator=(const ReplicaGroup&) = delete;

  unsigned size() const { return static_cast<unsigned>(left_.size()); }

  // All `members`, the caller at `position` of them, come to the meeting `channel` with a tensor each. Calls
  // `take` with the tensors in the order of the members; returns when all have taken, so that a tensor need
  // not stay any longer. Throws ReplicaMissing when a member has left.
  using Tensors = std::vector<HostTensor>;
  void Meet(std::uint32_t channel, const std::vector<unsigned>& members, std::size_t position,
            const HostTensor& tensor, const std::function<void(const Tensors&)>& take);

  // The replica has ended its program and comes to no meeting any more.
  void Leave(unsigned replica);

 private:
  struct Meeting {
    Tensors tensors;
    std::uint64_t arrivals = 0, takes = 0;  // over all rounds
  };
  std::optional<unsigned> FirstWhoLeft(const std::vector<unsigned>& members) const;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::pair<std::uint32_t, unsigned>, Meeting> meetings_;  // by channel and first member
  std::vector<bool> left_;
};

// Which replica of which launch a program runs as. Without a group it can meet nobody.
struct Replica {
  ReplicaGroup* group = nullptr;
  unsigned index = 0;
};

}  // namespace ipu_model

#endif  // JAX_IPU_KERNELS_REPLICAS_H_
