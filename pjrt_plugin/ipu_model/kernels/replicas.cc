// ReplicaGroup: meetings in rounds, and the way out of those that cannot take place.
#include "pjrt_plugin/ipu_model/kernels/replicas.h"

#include <exception>

namespace ipu_model {

std::optional<unsigned> ReplicaGroup::FirstWhoLeft(const std::vector<unsigned>& members) const {
  for (const unsigned member : members) {
    if (left_.at(member)) return member;
  }
  return std::nullopt;
}

void ReplicaGroup::Meet(std::uint32_t channel, const std::vector<unsigned>& members, std::size_t position,
                        const HostTensor& tensor, const std::function<void(const Tensors&)>& take) {
  std::unique_lock<std::mutex> lock(mutex_);
  Meeting& meeting = meetings_[{channel, members.at(0)}];
  meeting.tensors.resize(members.size());
  // Nobody comes to the next round before all have taken in this one.
  const std::uint64_t round_end = (meeting.arrivals / members.size() + 1) * members.size();
  meeting.tensors.at(position) = tensor;
  if (++meeting.arrivals == round_end) changed_.notify_all();
  while (meeting.arrivals < round_end) {
    if (const std::optional<unsigned> missing = FirstWhoLeft(members)) {
      throw ReplicaMissing("replica " + std::to_string(*missing) +
                           " ended its program while others wait for it in a collective operation; all "
                           "replicas must reach the same collectives");
    }
    changed_.wait(lock);
  }
  lock.unlock();
  std::exception_ptr error;
  try {
    take(meeting.tensors);
  } catch (...) {
    error = std::current_exception();  // others may still be reading this replica's tensor
  }
  lock.lock();
  if (++meeting.takes == round_end) changed_.notify_all();
  changed_.wait(lock, [&] { return meeting.takes >= round_end; });
  if (error) std::rethrow_exception(error);
}

void ReplicaGroup::Leave(unsigned replica) {
  const std::lock_guard<std::mutex> lock(mutex_);
  left_.at(replica) = true;
  changed_.notify_all();
}

}  // namespace ipu_model
