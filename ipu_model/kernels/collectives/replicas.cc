// Meetings in rounds, and the way out of those that cannot take place.
#include "kernels/collectives/replicas.h"

#include <algorithm>
#include <exception>
#include <numeric>

#include "kernels/copy/strided_copy.h"
#include "kernels/host/dense_tensor.h"

namespace ipu_model {
namespace {

bool IsSameView(const HostTensor& a, const HostTensor& b) {
  return a.data == b.data && a.rank == b.rank && std::equal(a.shape, a.shape + a.rank, b.shape) &&
         std::equal(a.strides, a.strides + a.rank, b.strides);
}

// Calls visit(giver, taker, offset, view, is_new) for the parts of one message, in the order of the givers;
// returns the message's size in bytes. A part that several takers need is sent once. `like` stands for the
// tensor of any giver: all have one shape.
template <typename Visit>
std::size_t VisitParts(const std::vector<std::size_t>& givers, const std::vector<std::size_t>& takers,
                       const HostTensor& like, const Meetings::Part& part, Visit&& visit) {
  std::size_t size = 0;
  for (const std::size_t giver : givers) {
    std::vector<std::pair<HostTensor, std::size_t>> sent;
    for (const std::size_t taker : takers) {
      const std::optional<HostTensor> view = part(like, giver, taker);
      if (!view || view->num_elements() == 0) continue;
      const auto before = std::find_if(sent.begin(), sent.end(),
                                       [&](const auto& other) { return IsSameView(other.first, *view); });
      const bool is_new = before == sent.end();
      const std::size_t offset = is_new ? size : before->second;
      visit(giver, taker, offset, *view, is_new);
      if (!is_new) continue;
      sent.emplace_back(*view, size);
      size += static_cast<std::size_t>(view->num_elements()) * SizeOf(view->type);
    }
  }
  return size;
}

}  // namespace

std::optional<unsigned> Meetings::FirstWhoLeft(const std::vector<unsigned>& members) const {
  for (const unsigned member : members) {
    if (left_.at(member)) return member;
  }
  return std::nullopt;
}

void Meetings::MeetOthers(std::uint32_t channel, const std::vector<unsigned>& members, const Part& part,
                          Meeting& meeting) {
  std::vector<std::size_t> here;
  std::map<int, std::vector<std::size_t>> elsewhere;  // by process
  for (std::size_t m = 0; m < members.size(); ++m) {
    if (remote_->IsHere(members[m])) {
      here.push_back(m);
    } else {
      elsewhere[remote_->ProcessOf(members[m])].push_back(m);
    }
  }
  // Copy to dense memory: a broadcast operand may be strided in one process and dense in another.
  const HostTensor& any = meeting.tensors[here[0]];
  const HostTensor like = DenseLike(any, any.data);
  const auto ignore = [](std::size_t, std::size_t, std::size_t, const HostTensor&, bool) {};

  meeting.received.clear();
  meeting.transfers.clear();
  std::vector<const std::vector<std::size_t>*> others;
  for (const auto& [process, there] : elsewhere) {
    RemoteReplicas::Transfer transfer;
    transfer.here = members[here[0]];
    transfer.there = members[there[0]];
    transfer.out.resize(VisitParts(here, there, like, part, ignore));
    transfer.in.resize(VisitParts(there, here, like, part, ignore));
    if (transfer.out.empty() && transfer.in.empty()) continue;
    VisitParts(here, there, like, part,
               [&](std::size_t giver, std::size_t taker, std::size_t offset, const HostTensor&, bool is_new) {
                 if (!is_new) return;
                 const HostTensor from = *part(meeting.tensors[giver], giver, taker);
                 const HostTensor to = DenseLike(from, transfer.out.data() + offset);
                 CopyStrided(&ThreadPool::Global(), from.rank, from.shape, from.data, from.strides, to.data,
                             to.strides, SizeOf(from.type));
               });
    meeting.transfers.push_back(std::move(transfer));
    others.push_back(&there);
  }
  if (meeting.transfers.empty()) return;
  remote_->Carry(channel, meeting.transfers);
  for (std::size_t i = 0; i < others.size(); ++i) {
    unsigned char* const in = meeting.transfers[i].in.data();
    VisitParts(*others[i], here, like, part,
               [&](std::size_t giver, std::size_t taker, std::size_t offset, const HostTensor& view, bool) {
                 meeting.received[{giver, taker}] = DenseLike(view, in + offset);
               });
  }
}

void Meetings::Meet(std::uint32_t channel, const std::vector<unsigned>& members, std::size_t position,
                    const HostTensor& tensor, const Part& part,
                    const std::function<void(const Parts&)>& take) {
  const auto expected = static_cast<std::uint64_t>(
      std::count_if(members.begin(), members.end(), [this](unsigned member) { return IsHere(member); }));
  std::unique_lock<std::mutex> lock(mutex_);
  Meeting& meeting = meetings_[{channel, members.at(0)}];
  meeting.tensors.resize(members.size());
  // A member may enter the next round only after all members have taken their parts of this one.
  const std::uint64_t round_end = (meeting.arrivals / expected + 1) * expected;
  meeting.tensors.at(position) = tensor;
  if (++meeting.arrivals == round_end) {
    if (expected < members.size()) {
      lock.unlock();  // no other thread uses the meeting before it is opened
      MeetOthers(channel, members, part, meeting);
      lock.lock();
    }
    meeting.opened = round_end;
    changed_.notify_all();
  }
  while (meeting.opened < round_end) {
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
    Parts parts(members.size());
    for (std::size_t giver = 0; giver < members.size(); ++giver) {
      if (IsHere(members[giver])) {
        parts[giver] = part(meeting.tensors[giver], giver, position);
      } else if (const auto found = meeting.received.find({giver, position});
                 found != meeting.received.end()) {
        parts[giver] = found->second;
      }
    }
    take(parts);
  } catch (...) {
    error = std::current_exception();  // other members may still be reading this replica's tensor
  }
  lock.lock();
  if (++meeting.takes == round_end) {
    meeting.transfers.clear();
    changed_.notify_all();
  }
  changed_.wait(lock, [&] { return meeting.takes >= round_end; });
  if (error) std::rethrow_exception(error);
}

void Meetings::Leave(unsigned replica) {
  const std::lock_guard<std::mutex> lock(mutex_);
  left_.at(replica) = true;
  changed_.notify_all();
}

ReplicaGroup::ReplicaGroup(unsigned size, RemoteReplicas* remote)
    : size_(size), meetings_(std::make_unique<Meetings>(size, remote)) {}
ReplicaGroup::~ReplicaGroup() = default;

void ReplicaGroup::Gather(std::uint32_t channel, unsigned replica, const void* data, std::size_t bytes,
                          const std::function<void(const std::vector<const void*>&)>& take) {
  std::vector<unsigned> members(size_);
  std::iota(members.begin(), members.end(), 0u);
  const HostTensor tensor =
      DenseVector(DType::kU8, static_cast<std::int64_t>(bytes), const_cast<void*>(data));
  meetings_->Meet(
      channel, members, replica, tensor,
      [](const HostTensor& whole, std::size_t, std::size_t) { return whole; },
      [&take](const Meetings::Parts& parts) {
        std::vector<const void*> all;
        for (const std::optional<HostTensor>& part : parts) all.push_back(part ? part->data : nullptr);
        take(all);
      });
}

void ReplicaGroup::Leave(unsigned replica) { meetings_->Leave(replica); }

}  // namespace ipu_model
