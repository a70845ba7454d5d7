// The hardware numbers of each architecture. No other file holds such numbers.
#ifndef IPU_MODEL_CORE_TARGET_TARGET_MODEL_H_
#define IPU_MODEL_CORE_TARGET_TARGET_MODEL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ipu_model/Types.hpp"

namespace poplar {
class Target;
}

namespace ipu_model {

// Cycles are tile clock cycles; bytes per cycle are per tile. The .cc file gives the source of each value.
struct TargetModel {
  const char* version;  // "ipu1", "ipu2", "ipu21", "bow"
  // IPUs of a target, whose tiles are numbered IPU after IPU; all IPUs have as many tiles. The other numbers
  // are those of one IPU.
  unsigned num_ipus = 1;

  // Tiles and memory.
  unsigned num_tiles;
  std::uint32_t bytes_per_tile;
  std::uint32_t instruction_fetch_bytes;  // from the start of the tile memory: where code can be
  unsigned memory_element_bytes;          // a bank, which serves one access in each cycle
  unsigned worker_contexts;
  double clock_hz;

  // Compute.
  unsigned data_path_bytes;       // bytes of one load or store
  unsigned wide_load_bytes;       // bytes of a load from interleaved memory
  unsigned amp_units_half;        // convolution units for half inputs (and quarter) with half partial sums
  unsigned amp_units_half_float;  // the same with float partial sums
  unsigned amp_units_float;       // convolution units for float inputs
  unsigned amp_macs_half;         // multiply-accumulates per cycle, half inputs and sums; 0: not supported
  unsigned amp_macs_float;        // the same for float inputs
  unsigned amp_macs_quarter;      // the same for 8-bit float inputs
  unsigned amp_pipeline_depth;    // input groups in flight in a convolution unit
  unsigned atomic_store_bytes;    // of the narrowest store
  unsigned repeat_count_bits;     // of the count of a hardware loop
  unsigned stride_bits;           // of a stride in a load with increments
  unsigned interleaved_element;   // the first bank that is interleaved with the next
  // Bits of the sizes in references to vectors: in a VectorLayout::SHORT_SPAN, in a list of vectors, and in a
  // vector of such a list.
  unsigned short_span_size_bits, delta_list_count_bits, delta_size_bits;
  unsigned amp_coefficient_bytes;   // bytes of weights loaded per cycle, without wide loads
  unsigned supervisor_overhead;     // launch and sync of one supervisor vertex
  unsigned memcpy_bytes_per_cycle;  // rate of a local copy
  unsigned local_copy_call_cycles;  // fixed cost of a local copy by six workers
  // Cycles of a worker in a codelet of a user that gives no estimate.
  unsigned codelet_cycles_per_element;
  unsigned library_call_cycles;
  unsigned cycle_stamp_cycles;  // to read the cycle counter of a tile and store it

  // Exchange and synchronisation.
  unsigned exchange_bytes_per_cycle;
  unsigned tiles_per_shared_bus;  // neighbours that share one bus if they receive the same data
  unsigned sync_cycles;           // internal sync of one IPU, before an exchange
  unsigned global_sync_cycles;    // sync of all IPUs and the host

  // Links, in bytes per second.
  double ipu_link_bytes_per_second;   // one IPU-Link, one direction
  double ipu_link_efficiency;         // fraction of the bytes that are payload
  unsigned ipu_links_to_neighbour;    // links to each neighbour in the ring of all IPUs
  double ipu_link_hop_seconds;        // latency per IPU that a transfer passes through or ends at
  double host_link_bytes_per_second;  // one direction
  double host_rendezvous_seconds;     // fixed cost of one host synchronisation
  double streaming_memory_bytes_per_second;
  // Of streaming memory that the IPUs of a machine share, at most; 0: none, or not known.
  std::uint64_t streaming_memory_bytes;
  unsigned ipus_of_a_machine;

  // Code model, in bytes.
  unsigned instruction_bytes;
  unsigned control_code_bytes_per_superstep;  // sync, exchange launch and vertex launch on each tile
  unsigned exchange_code_bytes_per_fragment;  // one send or receive entry
  unsigned runtime_bytes;                     // supervisor runtime and worker stacks on each tile

  // Returns the number of elements of `type` in one word of the data path, at least 1.
  unsigned VectorWidth(DType type) const {
    const auto size = static_cast<unsigned>(SizeOf(type));
    return size >= data_path_bytes ? 1 : data_path_bytes / size;
  }
  // Returns the multiply-accumulates per cycle of the AMP for inputs of this type, or 0 if the AMP does not
  // support it. bf16 is not an IPU type: the model gives it the half rate, as if it were converted.
  unsigned AmpMacsPerCycle(DType type) const;
  // bf16 has the units of half here too. The partial sums of quarter inputs are half.
  unsigned AmpUnits(DType type, bool float_partials) const {
    if (SizeOf(type) > 2) return amp_units_float;
    return float_partials && SizeOf(type) == 2 ? amp_units_half_float : amp_units_half;
  }
  // Returns the input channels of one AMP instruction group: pipeline depth x elements per load.
  unsigned AmpInputGroup(DType type) const { return amp_pipeline_depth * VectorWidth(type); }
};

// What the numbers of a target may differ in from those of its architecture.
struct TargetChanges {
  unsigned num_ipus = 1;
  // 0: that of the architecture.
  std::uint32_t bytes_per_tile = 0;
  unsigned worker_contexts = 0, data_path_bytes = 0, memcpy_bytes_per_cycle = 0, exchange_bytes_per_cycle = 0,
           instruction_bytes = 0;
  double clock_hz = 0;
  // -1: that of the architecture.
  int sync_cycles = -1, global_sync_cycles = -1;
  template <typename Self, typename Visitor>
  static void Fields(Self& self, Visitor& visit) {
    visit("num_ipus", self.num_ipus);
    visit("bytes_per_tile", self.bytes_per_tile);
    visit("worker_contexts", self.worker_contexts);
    visit("data_path_bytes", self.data_path_bytes);
    visit("memcpy_bytes_per_cycle", self.memcpy_bytes_per_cycle);
    visit("exchange_bytes_per_cycle", self.exchange_bytes_per_cycle);
    visit("instruction_bytes", self.instruction_bytes);
    visit("clock_hz", self.clock_hz);
    visit("sync_cycles", self.sync_cycles);
    visit("global_sync_cycles", self.global_sync_cycles);
  }
};
// The model of an architecture with these changes; that of the architecture itself if there are none. Throws
// std::invalid_argument for numbers that no target can have.
std::shared_ptr<const TargetModel> ChangedTargetModel(const std::string& version,
                                                      const TargetChanges& changes);
// How a model differs from its architecture.
TargetChanges ChangesOf(const TargetModel& model);
// Negative: a is before b in a total order; 0: their numbers are equal.
int Order(const TargetModel& a, const TargetModel& b);

// Throws std::invalid_argument with a list of the known names.
const TargetModel& FindTargetModel(const std::string& version);
// poplar::Target::createCPUTarget: one tile with the memory of a host, one worker. Not in the list of names.
const TargetModel& CpuTargetModel();

// The numbers of a target.
const TargetModel& ModelOf(const poplar::Target& target);

}  // namespace ipu_model

#endif  // IPU_MODEL_CORE_TARGET_TARGET_MODEL_H_
