// Meetings in which the replicas of one launch pass tensors to each other. Each replica runs on its own
// thread.
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

  // Returns the part of `giver`'s tensor that `taker` takes, as a view of the tensor, or nothing.
  using Part = std::function<std::optional<HostTensor>(const HostTensor& tensor, std::size_t giver,
                                                       std::size_t taker)>;
  using Parts = std::vector<std::optional<HostTensor>>;

  // All `members` come to the meeting `channel`, each with a tensor of the same shape and type; the caller is
  // at `position` of them. Calls `take` with the parts for this member, in the order of the givers. Returns
  // when all members have taken their parts, so the tensor may then be freed. Throws ReplicaMissing if a
  // member has left, and the errors of RemoteReplicas::Carry.
  void Meet(std::uint32_t channel, const std::vector<unsigned>& members, std::size_t position,
            const HostTensor& tensor, const Part& part, const std::function<void(const Parts&)>& take);

  // Marks the replica as finished: it comes to no further meeting.
  void Leave(unsigned replica);

 private:
  struct Meeting {
    std::vector<HostTensor> tensors;                  // by member; only of replicas in this process
    std::vector<RemoteReplicas::Transfer> transfers;  // owns the memory of `received`
    std::map<std::pair<std::size_t, std::size_t>, HostTensor> received;  // by giver and taker
    std::uint64_t arrivals = 0, opened = 0, takes = 0;  // over all rounds, by replicas of this process
  };
  bool IsHere(unsigned replica) const { return remote_ == nullptr || remote_->IsHere(replica); }
  void MeetOthers(std::uint32_t channel, const std::vector<unsigned>& members, const Part& part,
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
