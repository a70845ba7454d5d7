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
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "kernels/host/host_tensor.h"

namespace ipu_model {

// A replica waits for one that will not come.
struct ReplicaMissing : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The replicas of a launch that other processes run.
class RemoteReplicas {
 public:
  virtual ~RemoteReplicas() = default;
  virtual bool IsHere(unsigned replica) const = 0;
  // Replicas of one process have the same number.
  virtual int ProcessOf(unsigned replica) const = 0;

  // What a meeting moves between this process and another. Either side names the first of the meeting's
  // replicas in each process: two meetings of both of these come in the same order on both sides.
  struct Transfer {
    unsigned here = 0, there = 0;
    std::vector<unsigned char> out, in;  // `in` has the size that it will be filled to
  };
  // Returns when everything is sent and received. Several threads call it at once, for different replicas.
  virtual void Exchange(std::uint32_t channel, std::vector<Transfer>& transfers) = 0;

  // A replica here ends because of an error: those elsewhere are not to wait for it.
  virtual void Fail(const std::string& reason) = 0;
};

class ReplicaGroup {
 public:
  // `remote`: null when all replicas are in this process.
  explicit ReplicaGroup(unsigned size, RemoteReplicas* remote = nullptr) : remote_(remote), left_(size) {}
  ReplicaGroup(const ReplicaGroup&) = delete;
  ReplicaGroup& operator=(const ReplicaGroup&) = delete;

  unsigned size() const { return static_cast<unsigned>(left_.size()); }

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

// Which replica of which launch a program runs as. Without a group it can meet nobody.
struct Replica {
  ReplicaGroup* group = nullptr;
  unsigned index = 0;
};

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_COLLECTIVES_REPLICAS_H_
