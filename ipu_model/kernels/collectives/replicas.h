// How the replicas of one launch, each run by a thread of its own, meet to exchange tensors.
#ifndef IPU_MODEL_KERNELS_COLLECTIVES_REPLICAS_H_
#define IPU_MODEL_KERNELS_COLLECTIVES_REPLICAS_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "ipu_model/Model.hpp"
#include "kernels/host/host_tensor.h"

namespace ipu_model {

// Of one ReplicaGroup.
class Meetings {
 public:
  // `remote`: null when all replicas are in this process.
  Meetings(unsigned replicas, RemoteReplicas* remote) : remote_(remote), left_(replicas) {}
  Meetings(const Meetings&) = delete;
  Meetings& operator=(const Meetings&) = delete;

  // What member `taker` takes of the tensor that member `giver` brings; nothing, or a view of the tensor.
  using Part = std::function<std::optional<HostTensor>(const HostTensor& tensor, std::size_t giver,
                                                       std::size_t taker)>;
  using Parts = std::vector<std::optional<HostTensor>>;

  // All `members`, the caller at `position` of them, come to the meeting `channel` with a tensor each, of one
  // shape and type. Calls `take` with the parts for this member, in the order of the givers; returns when all
  // have taken, so that a tensor need not stay any longer. Throws ReplicaMissing when a member has left, and
  // what RemoteReplicas::Exchange throws.
  void Meet(std::uint32_t channel, const std::vector<unsigned>& members, std::size_t position,
            const HostTensor& tensor, const Part& part, const std::function<void(const Parts&)>& take);

  // The replica has ended its program and comes to no meeting any more.
  void Leave(unsigned replica);

 private:
  struct Meeting {
    std::vector<HostTensor> tensors;                  // by member; of those in this process
    std::vector<RemoteReplicas::Transfer> transfers;  // own the memory of `received`
    std::map<std::pair<std::size_t, std::size_t>, HostTensor> received;  // by giver and taker
    std::uint64_t arrivals = 0, opened = 0, takes = 0;  // over all rounds, of replicas in this process
  };
  bool IsHere(unsigned replica) const { return remote_ == nullptr || remote_->IsHere(replica); }
  void ExchangeWithOthers(std::uint32_t channel, const std::vector<unsigned>& members, const Part& part,
                          Meeting& meeting);
  std::optional<unsigned> FirstWhoLeft(const std::vector<unsigned>& members) const;

  RemoteReplicas* const remote_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::pair<std::uint32_t, unsigned>, Meeting> meetings_;  // by channel and first member
  std::vector<bool> left_;
};

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_COLLECTIVES_REPLICAS_H_
