// Each number has a confidence: P (primary source was read), D (derived from a primary source by arithmetic),
// S (secondary source) or M (from memory; no test may depend on its exact value).
#include "core/target/target_model.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "ipu_model/Chips.hpp"

namespace ipu_model {
namespace {

// IPU-M2000 generation (GC200).
TargetModel Ipu2() {
  TargetModel t{};
  t.version = "ipu2";
  t.num_tiles = 1472;             // P: Hot Chips 33; GC200 data sheets
  t.bytes_per_tile = 624 * 1024;  // P: 624 KiB (ipu-stack memory map; 1472 tiles = "900 MB")
  // P: instructions are fetched from region 0 only, 0x4c000 to 0x80000 (ipu-stack memory map for ipu21; the
  // same memory)
  t.instruction_fetch_bytes = 208 * 1024;
  t.memory_element_bytes = 16 * 1024;  // P: ipu-stack memory map
  t.worker_contexts = 6;               // P: 8832 threads per IPU in the data sheets
  t.clock_hz = 1.325e9;                // P: graphcore-research SpMM notebook ("classic is 1325MHz")
  t.data_path_bytes = 8;               // P: 64-bit data path (PopLibs vector widths)
  t.wide_load_bytes = 16;              // P: 128-bit loads from interleaved memory
  t.amp_units_half = 16;               // P: PopLibs convolution vertices
  // P: PopLibs ConvPartial1x1Out.cpp (hasAssembly: half to float with 8 units only), single_conv_layer.cpp
  // (the store of two floats a cycle is what limits them)
  t.amp_units_half_float = 8;
  t.amp_units_float = 16;              // P: PopLibs convolution vertices
  t.amp_macs_half = 64;                // D: 249.66 TFLOP/s / (1472 x 1.325 GHz x 2)
  t.amp_macs_float = 16;               // D: 62.4 TFLOP/s / (1472 x 1.325 GHz x 2)
  t.amp_macs_quarter = 0;              // P: 8-bit floats were introduced with ipu21
  t.amp_pipeline_depth = 4;            // P: PopLibs planner (16 half or 8 float input channels per group)
  t.amp_coefficient_bytes = 8;         // P: without 128-bit weight loads
  t.atomic_store_bytes = 4;            // M: the narrowest store has 32 bits
  t.repeat_count_bits = 16;            // M: a 16-bit count in a register
  t.stride_bits = 10;                  // D: PopLibs packs three strides into 32 bits
  t.interleaved_element = 20;          // M: the upper half of the 40 memory elements, in pairs
  t.short_span_size_bits = 11;         // M: 21 bits of address, 11 of size
  t.delta_list_count_bits = 12;        // P: PopLibs inlineAssemblerConv.hpp, DELTAN_OFFSET_BITS = 20
  t.delta_size_bits = 14;              // P: PopLibs conv_hzmac: DELTAN_COUNT_BITS = 14
  t.codelet_cycles_per_element = 7;    // P: PopLibs' table: addition of integers in plain C++
  t.library_call_cycles = 277;         // P: PopLibs' table: division of integers, which is such a call
  t.supervisor_overhead = 11;          // P: PopLibs basicOpSupervisorOverhead
  t.memcpy_bytes_per_cycle = 8;        // P: Target::getMemcpyBytesPerCycle
  t.local_copy_call_cycles = 288;      // P: measured on C600 (ipu-stack)
  t.cycle_stamp_cycles = 45;           // P: tessellate-ipu: between two counts in a row, measured
  t.exchange_bytes_per_cycle = 4;      // P: Target::getExchangeBytesPerCycle; 1472 x 4 x 1.325 = 7.8 TB/s
  t.tiles_per_shared_bus = 2;          // P: Target::getTilesPerSharedExchangeBus
  t.sync_cycles = 126;                 // P: Target::getMaxIPUSyncDelay; open code spans 48 to 600 cycles
  t.global_sync_cycles = 600;          // P: Target::getGlobalSyncCycles
  t.ipu_link_bytes_per_second = 16e9;  // P: PopLibs: 128 Gbit/s; C600: 4 links, 1 Tbit/s both directions
  t.ipu_link_efficiency = 0.85;        // P: PopLibs' model of transfers between IPUs
  t.ipu_links_to_neighbour = 2;        // P: PopLibs: 2 up, 2 down; C600: 2 links on each cable
  t.ipu_link_hop_seconds = 15e-9;      // D: PopLibs gives it for the sync; also used for data
  // P: host -> buffer -> tile, 26.41 Gbit/s for one IPU of an IPU-M2000 (Graphcore's documentation of
  // gc-hosttraffictest; back: 23.46 Gbit/s). Peak: 12.5e9, one 100 Gbit/s port
  t.host_link_bytes_per_second = 3.30e9;
  t.host_rendezvous_seconds = 157e-6;          // D: 36.3 s / 230,940 host-sync phases on C600, an open driver
  t.streaming_memory_bytes_per_second = 20e9;  // M: 20 GB/s per IPU; DIMM arithmetic allows 9.6 if shared
  t.streaming_memory_bytes = 256'000'000'000;  // M: as that of the Bow-2000
  t.ipus_of_a_machine = 4;                     // P: IPU-M2000 and Bow-2000 data sheets
  t.instruction_bytes = 4;                     // P: 32-bit instructions, 64-bit bundles
  // D: 8 instructions before an exchange (bases, worker barrier, count, sync, call) and 3 for a call of a
  // vertex (ipu-stack's emitter; Poplar's is not public)
  t.control_code_bytes_per_superstep = 44;
  // P: a receiver sets a pointer and a source, one 32-bit instruction each (ipu-stack's exchange reference)
  t.exchange_code_bytes_per_fragment = 8;
  // M: supervisor runtime, host link code, worker stacks. ipu-stack's stacks and state alone: 1,760 bytes
  t.runtime_bytes = 8 * 1024;
  return t;
}

// Mk1 (GC2).
TargetModel Ipu1() {
  TargetModel t = Ipu2();
  t.version = "ipu1";
  t.num_tiles = 1216;                       // P: Louw and McIntosh-Smith 2021
  t.bytes_per_tile = 256 * 1024;            // P: Louw and McIntosh-Smith 2021 (304 MiB in all)
  t.instruction_fetch_bytes = 256 * 1024;   // M: no limit is known
  t.repeat_count_bits = 12;                 // M: a 12-bit count
  t.interleaved_element = 8;                // M: the upper half of the memory elements
  t.clock_hz = 1.6e9;                       // P: iPUG; can clock down to 1.3 GHz
  t.amp_units_half = 8;                     // D: half of ipu2's rate
  t.amp_units_half_float = 8;               // P: PopLibs convolution vertices; the full rate (124.5 TFLOP/s)
  t.amp_units_float = 8;                    // D: half of ipu2's rate
  t.amp_macs_half = 32;                     // D: 124.5 TFLOP/s / (1216 x 1.6 GHz x 2)
  t.amp_macs_float = 8;                     // D: 31.1 TFLOP/s / (1216 x 1.6 GHz x 2)
  t.host_link_bytes_per_second = 31.5e9;    // D: peak of PCIe Gen4 x16 (Louw); no measurement is known
  t.streaming_memory_bytes_per_second = 0;  // P: no streaming memory on C2 cards
  t.streaming_memory_bytes = 0;             // P: likewise
  return t;
}

// C600 generation.
TargetModel Ipu21() {
  TargetModel t = Ipu2();
  t.version = "ipu21";
  t.clock_hz = 1.5e9;            // P: ipu-stack for C600
  t.streaming_memory_bytes = 0;  // that of cards is not known
  // D: 16 convolution units x 32 input channels (PopLibs loads 8 elements at a time, 4 in flight) in 4 cycles
  t.amp_macs_quarter = 128;
  t.host_link_bytes_per_second =
      3.91e9;  // D: 453,752,832 bytes in 116 ms (ipu-stack); peak: PCIe Gen4 x8, 15.75e9
  return t;
}

// ipu2 in wafer-on-wafer technology: the same architecture with a faster clock.
TargetModel Bow() {
  TargetModel t = Ipu2();
  t.version = "bow";
  t.clock_hz = 1.85e9;                         // P: graphcore-research notebooks print 1850000000.0
  t.streaming_memory_bytes = 256'000'000'000;  // P: Bow-2000 data sheet, at most
  return t;
}

const std::vector<TargetModel>& Table() {
  static const std::vector<TargetModel> table = {Ipu1(), Ipu2(), Ipu21(), Bow()};
  return table;
}

}  // namespace

unsigned TargetModel::AmpMacsPerCycle(DType type) const {
  switch (type) {
    case DType::kF32:
      return amp_macs_float;
    case DType::kF16:
    case DType::kBF16:
      return amp_macs_half;
    case DType::kF8E3M4:
    case DType::kF8E4M3:
    case DType::kF8E4M3FN:
    case DType::kF8E4M3FNUZ:
    case DType::kF8E4M3B11FNUZ:
    case DType::kF8E5M2:
    case DType::kF8E5M2FNUZ:
      return amp_macs_quarter;
    default:
      return 0;
  }
}

const TargetModel& FindTargetModel(const std::string& version) {
  std::string known;
  for (const TargetModel& t : Table()) {
    if (version == t.version) return t;
    known += (known.empty() ? "" : ", ") + std::string(t.version);
  }
  throw std::invalid_argument("unknown IPU architecture '" + version + "'; known are: " + known);
}

std::vector<std::string> ChipNames() {
  std::vector<std::string> names;
  for (const TargetModel& t : Table()) names.emplace_back(t.version);
  return names;
}

unsigned MostTiles() {
  unsigned most = 0;
  for (const TargetModel& t : Table()) most = std::max(most, t.num_tiles);
  return most;
}

const TargetModel& CpuTargetModel() {
  static const TargetModel model = [] {
    TargetModel t = Ipu2();
    t.version = "cpu";
    t.num_tiles = 1;
    t.bytes_per_tile = 0xffff0000u;
    t.instruction_fetch_bytes = t.bytes_per_tile;
    t.worker_contexts = 1;
    t.tiles_per_shared_bus = 1;
    return t;
  }();
  return model;
}

namespace {

constexpr unsigned kMostIpus = 64;  // of a Pod64

const TargetModel& Base(const std::string& version) {
  return version == CpuTargetModel().version ? CpuTargetModel() : FindTargetModel(version);
}

void Check(bool possible, const std::string& what) {
  if (!possible) throw std::invalid_argument("no IPU has " + what);
}

void CheckChanges(const TargetChanges& changes) {
  Check(changes.num_ipus >= 1 && changes.num_ipus <= kMostIpus,
        std::to_string(changes.num_ipus) + " IPUs; 1 to " + std::to_string(kMostIpus) + " are possible");
  Check(changes.bytes_per_tile <= 0xffff0000u, std::to_string(changes.bytes_per_tile) + " bytes per tile");
  Check(changes.worker_contexts <= 1024, std::to_string(changes.worker_contexts) + " worker contexts");
  // The costs of codelets hold for whole words that a wide load consists of.
  const unsigned path = changes.data_path_bytes;
  Check(path == 0 || path == 4 || path == 8 || path == 16,
        "a data path of " + std::to_string(path) + " bytes; 4, 8 and 16 are possible");
  Check(changes.memcpy_bytes_per_cycle <= 1u << 20 && changes.exchange_bytes_per_cycle <= 1u << 20 &&
            changes.instruction_bytes <= 1024,
        "these bytes per cycle or instruction");
  Check(changes.clock_hz >= 0 && changes.clock_hz <= 1e13, "this clock");
  Check(changes.sync_cycles <= 1 << 24 && changes.global_sync_cycles <= 1 << 24, "so many sync cycles");
}

std::vector<double> NumbersOf(const TargetChanges& changes) {
  struct {
    std::vector<double> list;
    void operator()(const char*, double number) { list.push_back(number); }
  } numbers;
  TargetChanges::Fields(changes, numbers);
  return std::move(numbers.list);
}

}  // namespace

std::shared_ptr<const TargetModel> ChangedTargetModel(const std::string& version,
                                                      const TargetChanges& changes) {
  const TargetModel& base = Base(version);
  CheckChanges(changes);
  TargetModel model = base;
  model.num_ipus = changes.num_ipus;
  const auto set = [](auto* number, auto changed) {
    if (changed > 0) *number = changed;
  };
  set(&model.bytes_per_tile, changes.bytes_per_tile);
  set(&model.worker_contexts, changes.worker_contexts);
  set(&model.data_path_bytes, changes.data_path_bytes);
  set(&model.memcpy_bytes_per_cycle, changes.memcpy_bytes_per_cycle);
  set(&model.exchange_bytes_per_cycle, changes.exchange_bytes_per_cycle);
  set(&model.instruction_bytes, changes.instruction_bytes);
  set(&model.clock_hz, changes.clock_hz);
  if (changes.sync_cycles >= 0) model.sync_cycles = static_cast<unsigned>(changes.sync_cycles);
  if (changes.global_sync_cycles >= 0)
    model.global_sync_cycles = static_cast<unsigned>(changes.global_sync_cycles);
  // The entries of the table live until the process ends.
  if (Order(model, base) == 0) return {std::shared_ptr<void>(), &base};
  return std::make_shared<const TargetModel>(model);
}

int Order(const TargetModel& a, const TargetModel& b) {
  if (&a == &b) return 0;
  if (const int versions = std::strcmp(a.version, b.version)) return versions;
  const std::vector<double> first = NumbersOf(ChangesOf(a)), second = NumbersOf(ChangesOf(b));
  return first == second ? 0 : first < second ? -1 : 1;
}

TargetChanges ChangesOf(const TargetModel& model) {
  const TargetModel& base = Base(model.version);
  TargetChanges changes;
  changes.num_ipus = model.num_ipus;
  const auto set = [](auto* change, auto number, auto of_base) {
    if (number != of_base) *change = static_cast<std::remove_pointer_t<decltype(change)>>(number);
  };
  set(&changes.bytes_per_tile, model.bytes_per_tile, base.bytes_per_tile);
  set(&changes.worker_contexts, model.worker_contexts, base.worker_contexts);
  set(&changes.data_path_bytes, model.data_path_bytes, base.data_path_bytes);
  set(&changes.memcpy_bytes_per_cycle, model.memcpy_bytes_per_cycle, base.memcpy_bytes_per_cycle);
  set(&changes.exchange_bytes_per_cycle, model.exchange_bytes_per_cycle, base.exchange_bytes_per_cycle);
  set(&changes.instruction_bytes, model.instruction_bytes, base.instruction_bytes);
  set(&changes.clock_hz, model.clock_hz, base.clock_hz);
  set(&changes.sync_cycles, model.sync_cycles, base.sync_cycles);
  set(&changes.global_sync_cycles, model.global_sync_cycles, base.global_sync_cycles);
  return changes;
}

}  // namespace ipu_model
