// What data sheets and the model say of a target, for ipu_model/Model.hpp. A build against the SDK has this
// file, too.
#include <algorithm>

#include "core/target/target_model.h"
#include "ipu_model/Model.hpp"

namespace ipu_model {

unsigned LocalCopyCallCycles(const poplar::Target& target) { return ModelOf(target).local_copy_call_cycles; }

std::uint32_t CodeBytesPerTile(const poplar::Target& target) {
  return ModelOf(target).instruction_fetch_bytes;
}

std::uint64_t HostLinkCycles(const poplar::Target& target, std::uint64_t transfers, std::uint64_t bytes) {
  const TargetModel& model = ModelOf(target);
  return model.global_sync_cycles * transfers +
         static_cast<std::uint64_t>(static_cast<double>(bytes) / model.host_link_bytes_per_second *
                                    model.clock_hz);
}

double PeakFlops(const poplar::Target& target) {
  // A multiply-accumulate is two operations.
  return 2.0 * ModelOf(target).amp_macs_half * target.getNumTiles() * ModelOf(target).clock_hz;
}

double SramBytesPerSecond(const poplar::Target& target) {
  return 1.0 * ModelOf(target).wide_load_bytes * target.getNumTiles() * ModelOf(target).clock_hz;
}

double HostLinkBytesPerSecond(const poplar::Target& target) {
  return ModelOf(target).host_link_bytes_per_second;
}

double IpuLinkBytesPerSecond(const poplar::Target& target) {
  const TargetModel& model = ModelOf(target);
  return model.ipu_links_to_neighbour * model.ipu_link_bytes_per_second;
}

std::uint64_t StreamingMemoryBytes(const poplar::Target& target, unsigned ipus) {
  const TargetModel& model = ModelOf(target);
  return model.streaming_memory_bytes / std::max(1u, std::min(ipus, model.ipus_of_a_machine));
}

}  // namespace ipu_model
