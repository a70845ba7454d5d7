// What a compiled program costs on the device: memory on each tile by liveness, cycles by bulk-synchronous
// supersteps.
#ifndef IPU_MODEL_ENGINE_DEVICE_REPORT_H_
#define IPU_MODEL_ENGINE_DEVICE_REPORT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/serialise.h"

namespace ipu_model {

struct CompiledProgram;  // engine/executable.h
struct OperationUse;     // engine/exchange.h

// Of one execution, unless said otherwise.
struct Cycles {
  std::uint64_t compute = 0, exchange = 0, sync = 0;
  std::uint64_t total() const { return compute + exchange + sync; }
  Cycles& operator+=(const Cycles& other) {
    compute += other.compute;
    exchange += other.exchange;
    sync += other.sync;
    return *this;
  }
  Cycles operator*(std::uint64_t n) const { return {compute * n, exchange * n, sync * n}; }
};

struct OperationCost {
  std::string kind, name;
  std::uint64_t executions = 0;  // per call of the main program
  Cycles cycles;                 // all executions together
  std::uint64_t exchange_bytes = 0;
  double flops = 0;
  unsigned tiles = 0;  // that compute
};

// A loop whose trip count is known at run time only. Totals count its condition and its body once each; a run
// of t trips costs (t - 1) more bodies and t more conditions.
struct LoopCost {
  std::uint32_t node = 0;  // its number in NodesOf(programs, then functions)
  std::string name;
  Cycles condition, body;
};

struct TileUse {
  unsigned tile = 0;
  std::uint64_t bytes = 0;
};

struct TensorUse {
  std::string name;
  std::string type;
  Shape shape;
  std::uint64_t bytes = 0;          // over all tiles
  std::uint64_t bytes_on_tile = 0;  // on the fullest tile
  std::string role;                 // "variable", "constant", "temporary", "exchange buffer"
  bool lasting = false;             // keeps its contents between runs
};

// What is on one tile at its worst moment, in bytes.
struct TilePeak {
  std::uint64_t variables = 0, temporaries = 0, exchange_buffers = 0, constants = 0, vertex_state = 0,
                code = 0;
  // Nothing else was planned: the variables alone are too large.
  bool variables_only = false;
  std::string operation;           // that runs at the moment, "" for none
  std::vector<TensorUse> tensors;  // all that are there, largest first
};

struct Report {
  // Cycles of programs[0].
  Cycles cycles;
  std::uint64_t exchange_bytes = 0;  // received from other tiles
  std::uint64_t link_bytes = 0;      // received from other IPUs
  double flops = 0;
  double clock_hz = 0;
  bool unknown_trip_count = false;  // at least one entry in `loops`
  std::vector<LoopCost> loops;
  std::vector<OperationCost> operations;  // in program order
  // The host link, apart from device cycles.
  std::uint64_t stream_in_bytes = 0, stream_out_bytes = 0, host_link_cycles = 0;

  // Memory over all programs.
  unsigned num_tiles = 0;
  std::uint64_t limit_tile_bytes = 0;
  std::uint64_t max_tile_bytes = 0, total_bytes = 0;  // each tile at its own peak
  unsigned max_tile = 0;
  // Parts of total_bytes at the peak of each tile.
  std::uint64_t variable_bytes = 0, constant_bytes = 0, temporary_bytes = 0, exchange_buffer_bytes = 0,
                vertex_bytes = 0, code_bytes = 0;
  std::vector<TileUse> fullest_tiles;      // largest first, at most 8
  std::vector<TensorUse> largest_tensors;  // live at the peak of max_tile, largest there first, at most 10
  std::string out_of_memory;               // empty when everything fits, else the message for the user
  // Of max_tile when not everything fits; not serialised, as such a program never is.
  TilePeak peak;
  // The most bytes that variables have on all tiles together at one moment.
  std::uint64_t peak_variable_bytes = 0;
};

// Plans of operations that several programs for one target share, such as those that are tried until one
// fits: an operation is planned once as long as its operands lie alike. Not for several threads at a time.
struct PlanCache {
  // Serialised mapping -> its number; kind, attributes and mappings of operands -> the plan.
  std::unordered_map<std::string, std::size_t> mappings;
  std::unordered_map<std::string, std::shared_ptr<const OperationUse>> plans;
  // Called by the thread that compiles, between operations, with how many of them are planned and how many
  // there are; what it throws ends the compilation.
  std::function<void(std::size_t, std::size_t)> poll;
};

// Plans every operation of every program, unless the variables alone do not fit: nothing else is known then.
// Does not throw for lack of memory: see Report::out_of_memory.
Report Analyse(const CompiledProgram& program, PlanCache* cache = nullptr);

void WriteReport(Writer& writer, const Report& report);
Report ReadReport(Reader& reader);

}  // namespace ipu_model

#endif  // IPU_MODEL_ENGINE_DEVICE_REPORT_H_
