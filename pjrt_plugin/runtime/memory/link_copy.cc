#include "runtime/memory/link_copy.h"

#include <cstdint>
#include <memory>
#include <utility>

#include "ipu_model/Model.hpp"
#include "runtime/recording/trace.h"

namespace jax_ipu {
namespace {

void AddToTraces(const TracedWork& sent, const TracedWork& received, std::uint64_t bytes,
                 std::uint64_t cycles) {
  const std::uint64_t run_id = Trace::NextRunId();
  const std::int64_t now = Trace::Now();
  for (const bool sends : {true, false}) {
    auto work = std::make_shared<TracedWork>(sends ? sent : received);
    work->run_id = run_id;
    work->meets_others = true;
    work->begin_ns = work->end_ns = now;
    work->transfers = {
        {sends ? TracedTransfer::Kind::kToIpu : TracedTransfer::Kind::kFromIpu, "", bytes, cycles}};
    Trace::Add(std::move(work));
  }
}

TracedWork WorkOn(const DeviceRuntime& device) {
  TracedWork work;
  work.device_id = device.device_id();
  work.version = device.config().version;
  work.num_tiles = device.config().num_tiles;
  return work;
}

}  // namespace

std::shared_ptr<Array> CopyOverLinks(const std::shared_ptr<Array>& array, const LinkEnd& from,
                                     const LinkEnd& to, unsigned ring) {
  const std::uint64_t bytes = array->spec().bytes();
  const poplar::Target target = poplar::Target::createIPUTarget(1, from.device->config().version);
  const std::uint64_t cycles = ipu_model::LinkCopyCycles(target, from.place, to.place, ring, bytes);
  // Called on the sender's thread, which must not drop the last reference to a device.
  const auto count = [sender = from.device->usage(), receiver = to.device->usage(), bytes, cycles,
                      sent = WorkOn(*from.device), received = WorkOn(*to.device)](const Error* error) {
    if (error != nullptr) return;
    if (Trace::IsActive()) AddToTraces(sent, received, bytes, cycles);
    Add(sender->cycles, cycles);
    Add(receiver->cycles, cycles);
    Add(receiver->link_bytes, bytes);
  };
  const CompletionPtr fetched = from.device->FetchForLinks(array);
  if (array->on_host()) {  // the memory is known; ready() says when its bytes are valid
    array->host()->Own(from.device->pool());
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
