#include "runtime/link_copy.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "core/link_schedule.h"
#include "core/target_model.h"

namespace jax_ipu {

std::shared_ptr<Array> CopyOverLinks(const std::shared_ptr<Array>& array, const LinkEnd& from,
                                     const LinkEnd& to, unsigned ring) {
  const std::uint64_t bytes = array->spec().bytes();
  std::uint64_t cycles = 0;
  if (bytes > 0) {
    const ipu_model::TargetModel& target = ipu_model::FindTargetModel(from.device->config().version);
    std::vector<int> sources(ring, -1);
    sources[to.place] = static_cast<int>(from.place);
    cycles = TotalCycles(PermutationUse(sources, ring, static_cast<double>(bytes), target), target);
  }
  // Called by the sender's thread, which must not be left with the last reference to a device.
  const auto count = [sender = from.device->link_traffic(), receiver = to.device->link_traffic(), bytes,
                      cycles](const Error* error) {
    if (error != nullptr) return;
    sender->cycles += cycles;
    receiver->cycles += cycles;
    receiver->received_bytes += bytes;
  };
  const CompletionPtr fetched = from.device->FetchForLinks(array);
  if (array->on_host()) {  // at least where it will be
    auto copy = std::make_shared<Array>(array->shared_spec(), array->host(), fetched);
    copy->set_received(array->only_on_ipus());
    OnReady(fetched, count);
    return copy;
  }
  auto ready = std::make_shared<Completion>();
  auto copy = std::make_shared<Array>(array->shared_spec(), nullptr, ready);
  copy->set_received(true);
  OnReady(fetched, [array, copy, ready, count](const Error* error) {
    count(error);
    if (error != nullptr) {
      ready->Fail(*error);
    } else {
      copy->PublishHost(array->host());
      ready->Complete();
    }
  });
  return copy;
}

}  // namespace jax_ipu
