// The hardware numbers of each architecture: the one place where they live.
#ifndef IPU_MODEL_CORE_TARGET_MODEL_H_
#define IPU_MODEL_CORE_TARGET_MODEL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "ipu_model/Types.hpp"

namespace ipu_model {

// Cycles are tile clock cycles; bytes per cycle are per tile. Sources are given with the values in the .cc.
struct TargetModel {
  const char* version;  // "ipu1", "ipu2", "ipu21", "bow"

  // Tiles and memory.
  unsigned num_tiles;
  std::uint32_t bytes_per_tile;
  std::uint32_t instruction_fetch_bytes;  // code must lie in this much of the tile memory
  unsigned worker_contexts;
  double clock_hz;

  // Compute.
  unsigned data_path_bytes;         // one load or store
  unsigned wide_load_bytes;         // load from interleaved memory
  unsigned amp_units_half;          // convolution units for half inputs
  unsigned amp_units_float;         // and for float inputs
  unsigned amp_macs_half;           // multiply-accumulates per cycle; 0: not supported in the AMP
  unsigned amp_macs_float;          //
  unsigned amp_macs_quarter;        // 8-bit floats
  unsigned amp_pipeline_depth;      // input groups in flight in a convolution unit
  unsigned amp_coefficient_bytes;   // weight load per cycle, not using wide loads
  unsigned amp_call_cycles;         // fixed cost of one AMP kernel call beyond the worker loops
  unsigned vertex_call_cycles;      // the same of an elementwise, reduction or fill vertex
  unsigned supervisor_overhead;     // launch and sync of one supervisor vertex
  unsigned memcpy_bytes_per_cycle;  // local copy
  unsigned local_copy_call_cycles;  // fixed cost of a six-worker local copy

  // Exchange and synchronisation.
  unsigned exchange_bytes_per_cycle;
  unsigned tiles_per_shared_bus;  // neighbours that share one bus when they receive the same data
  unsigned sync_cycles;           // internal sync of one IPU, charged per superstep
  unsigned global_sync_cycles;    // sync of all IPUs and the host

  // Links, bytes per second.
  double ipu_link_bytes_per_second;   // one IPU-Link, one direction
  double ipu_link_efficiency;         // of that, for payload
  unsigned ipu_links_to_neighbour;    // in the ring of all IPUs, to each side
  double ipu_link_hop_seconds;        // latency for each IPU that a transfer passes through or ends at
  double host_link_bytes_per_second;  // one direction
  double host_rendezvous_seconds;     // fixed cost of one host synchronisation
  double streaming_memory_bytes_per_second;

  // Code model, bytes.
  unsigned instruction_bytes;
  unsigned control_code_bytes_per_superstep;  // sync, exchange launch and vertex launch on each tile
  unsigned exchange_code_bytes_per_fragment;  // one send or receive entry
  unsigned runtime_bytes;                     // supervisor runtime and worker stacks on each tile

  // Elements of `type` in one 64-bit data path word, at least 1.
  unsigned VectorWidth(DType type) const {
    const auto size = static_cast<unsigned>(SizeOf(type));
    return size >= data_path_bytes ? 1 : data_path_bytes / size;
  }
  // Multiply-accumulates per cycle of the AMP for inputs of this type, 0 when the AMP does not take them.
  // bf16 is not an IPU type: the model gives it the half rate, as if converted.
  unsigned AmpMacsPerCycle(DType type) const;
  unsigned AmpUnits(DType type) const { return SizeOf(type) <= 2 ? amp_units_half : amp_units_float; }
  // Input channels that one AMP instruction group takes: pipeline depth x elements per 64-bit load.
  unsigned AmpInputGroup(DType type) const { return amp_pipeline_depth * VectorWidth(type); }
};

// Throws std::invalid_argument that lists the known names.
const TargetModel& FindTargetModel(const std::string& version);
std::vector<std::string> TargetModelNames();

}  // namespace ipu_model

#endif  // IPU_MODEL_CORE_TARGET_MODEL_H_
