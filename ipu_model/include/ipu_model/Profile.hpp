// Everything that the model knows of a compiled program: every superstep of a call, every variable over its
// life, every tile's memory. Made on demand, by the analysis that makes the device report: the sums of a
// profile are the numbers of that report. A build against Graphcore's SDK replaces this file.
// Poplar's equivalent: the graph profile and the execution profile of the PopVision Analysis library `pva`.
#ifndef IPU_MODEL_PROFILE_HPP
#define IPU_MODEL_PROFILE_HPP

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ipu_model/Model.hpp"

namespace ipu_model {

// Run-length coded values, by tile unless said otherwise: value, number of tiles, value, number of tiles, ...
using RunLengths = std::vector<std::int64_t>;

// The fields that hold many values are visited by Integers: they become one object of Python each.

// One row for each line of a table; lines with equal values share a row.
struct RunLengthTable {
  std::vector<std::uint32_t> lines;  // index into rows
  std::vector<RunLengths> rows;
  template <typename Self, typename Visitor>
  static void Fields(Self& self, Visitor& visit) {
    visit("lines", self.lines);
    visit.Integers("rows", self.rows);
  }
};

// The nodes of the main program's tree as columns, parents first. The body of a function has nodes for each
// of its calls.
struct ProfileNodes {
  // "sequence", "repeat", "while", "if", "switch", "call", "operation", "stream in", "stream out", "host
  // call", "abort", "sync", "other"
  std::vector<std::string> kind;
  std::vector<std::string> name;
  std::vector<std::int32_t> parent;                 // -1 for none
  std::vector<std::int32_t> operation;              // index into Profile::operations; -1 for none
  std::vector<std::uint64_t> trips;                 // of "repeat"
  std::vector<std::uint64_t> executions;            // per call of the main program
  std::vector<std::int32_t> first_step, last_step;  // inclusive; -1 for none
  std::vector<std::uint64_t> cycles;                // of one execution
  template <typename Self, typename Visitor>
  static void Fields(Self& self, Visitor& visit) {
    visit("kind", self.kind);
    visit("name", self.name);
    visit("parent", self.parent);
    visit("operation", self.operation);
    visit("trips", self.trips);
    visit("executions", self.executions);
    visit("first_step", self.first_step);
    visit("last_step", self.last_step);
    visit("cycles", self.cycles);
  }
};

// The steps of one call in program order, bodies of loops once, as columns: supersteps of operations,
// decisions of loops and conditionals, and transfers between host and tiles, which take no tile cycles.
struct ProfileSteps {
  std::vector<std::uint32_t> node;      // index into Profile::nodes
  std::vector<std::int32_t> operation;  // index into Profile::operations; -1 for none
  std::vector<std::string> name;        // the codelets of a superstep, the stream of a transfer
  std::vector<std::uint64_t> executions;
  // 1, or 0 in branches of conditionals that Report::cycles does not count. The sum over all steps of
  // counted * executions * (compute + exchange + sync) is Report::cycles.
  std::vector<std::uint8_t> counted;
  // Of one execution: cycles of the slowest tile; bytes received from other tiles and from other IPUs.
  std::vector<std::uint64_t> compute, exchange, sync, exchange_bytes, link_bytes;
  std::vector<std::uint64_t> host_bytes;     // that the transfer moves
  std::vector<std::uint32_t> active_tiles;   // that compute
  std::vector<std::uint64_t> total_compute;  // cycles of all tiles together
  // The part of `compute` in which tiles copy their own elements so that vertices find operands in one piece.
  std::vector<std::uint64_t> local_copies;
  // Live bytes on all tiles, and on the fullest tile; 0 for steps without memory of their own.
  std::vector<std::uint64_t> live_bytes, fullest_bytes;
  std::vector<std::uint32_t> fullest_tile;
  template <typename Self, typename Visitor>
  static void Fields(Self& self, Visitor& visit) {
    visit("node", self.node);
    visit("operation", self.operation);
    visit("name", self.name);
    visit("executions", self.executions);
    visit("counted", self.counted);
    visit("compute", self.compute);
    visit("exchange", self.exchange);
    visit("sync", self.sync);
    visit("exchange_bytes", self.exchange_bytes);
    visit("link_bytes", self.link_bytes);
    visit("host_bytes", self.host_bytes);
    visit("active_tiles", self.active_tiles);
    visit("total_compute", self.total_compute);
    visit("local_copies", self.local_copies);
    visit("live_bytes", self.live_bytes);
    visit("fullest_bytes", self.fullest_bytes);
    visit("fullest_tile", self.fullest_tile);
  }
};

// What takes memory, as columns.
struct ProfileVariables {
  std::vector<std::string> name, dtype;  // dtype: "" for temporaries and exchange buffers
  std::vector<std::vector<std::int64_t>> shape;
  std::vector<std::string> role;                    // as in TensorUse
  std::vector<std::uint8_t> lasting;                // whether it keeps its contents between runs
  std::vector<std::uint64_t> bytes, bytes_on_tile;  // on all tiles, on the tile with the largest part
  std::vector<std::uint32_t> tiles;                 // that hold a part
  std::vector<std::uint32_t> row;                   // its bytes by tile: index into `rows`
  std::vector<RunLengths> rows;
  // The steps in which it takes memory: first, last, first, last, ... inclusive, in rising order.
  std::vector<std::vector<std::uint32_t>> live_steps;
  std::vector<std::int32_t> last_use;   // the last step that reads it; -1 for none
  std::vector<std::int32_t> operation;  // whose temporary or buffer it is; -1 for none
  std::vector<std::uint32_t> origin;    // of the operation that first writes it; see SetOrigin
  template <typename Self, typename Visitor>
  static void Fields(Self& self, Visitor& visit) {
    visit("name", self.name);
    visit("dtype", self.dtype);
    visit("shape", self.shape);
    visit("role", self.role);
    visit("lasting", self.lasting);
    visit("bytes", self.bytes);
    visit("bytes_on_tile", self.bytes_on_tile);
    visit("tiles", self.tiles);
    visit("row", self.row);
    visit.Integers("rows", self.rows);
    visit("live_steps", self.live_steps);
    visit("last_use", self.last_use);
    visit("operation", self.operation);
    visit("origin", self.origin);
  }
};

// The bytes on each tile at its own fullest moment, over all programs, as in Report.
struct ProfileMemory {
  RunLengths variables, temporaries, exchange_buffers, constants, vertex_state, code, total;
  // How far the addresses that variables, temporaries and buffers have in the main program reach beyond
  // `total`: bytes that blocks of memory leave between each other. Whether a program fits does not depend on
  // it.
  RunLengths gaps;
  // (index into ProfileVariables, address), flat, for single tiles: for the fullest, as far as
  // Profile::kMostAddresses addresses go. By tile, the index into `addresses`, or -1.
  std::vector<std::vector<std::int64_t>> addresses;
  RunLengths addresses_of_tile;
  // The step at which Report::max_tile is fullest; -1 if another program than the main one runs then.
  std::int32_t peak_step = -1;
  // Bytes on all tiles that no step changes: code, vertex state, constants and variables that are live in
  // every step.
  std::uint64_t always_live_bytes = 0;
  template <typename Self, typename Visitor>
  static void Fields(Self& self, Visitor& visit) {
    visit.Integers("variables", self.variables);
    visit.Integers("temporaries", self.temporaries);
    visit.Integers("exchange_buffers", self.exchange_buffers);
    visit.Integers("constants", self.constants);
    visit.Integers("vertex_state", self.vertex_state);
    visit.Integers("code", self.code);
    visit.Integers("total", self.total);
    visit.Integers("gaps", self.gaps);
    visit.Integers("addresses", self.addresses);
    visit.Integers("addresses_of_tile", self.addresses_of_tile);
    visit("peak_step", self.peak_step);
    visit("always_live_bytes", self.always_live_bytes);
  }
};

// What moves between tiles in the steps that exchange.
struct ProfileExchange {
  std::vector<std::uint32_t> steps;
  // Bytes by tile, a line for each of `steps`. A tile sends the same bytes to many tiles at once; `sent`
  // counts them for each tile that receives them, so both sums are the step's exchange_bytes.
  RunLengthTable sent, received;
  // Tile t is in group t / group_tiles. Rows are (group that sends, group that receives, bytes), flat.
  std::uint32_t group_tiles = 1;
  RunLengthTable pairs;
  template <typename Self, typename Visitor>
  static void Fields(Self& self, Visitor& visit) {
    visit("steps", self.steps);
    visit("sent", self.sent);
    visit("received", self.received);
    visit("group_tiles", self.group_tiles);
    visit("pairs", self.pairs);
  }
};

struct Profile {
  static constexpr std::size_t kMostValues = 200000;
  static constexpr std::size_t kMostAddresses = 10000;

  std::vector<OperationCost> operations;  // as in Report
  std::vector<std::uint32_t> origins;     // of each operation; see SetOrigin
  ProfileNodes nodes;
  ProfileSteps steps;
  RunLengthTable tile_compute;  // cycles by tile, a line for each step
  // Live bytes by tile, a line for each step. Empty if it had more than kMostValues values: it then follows
  // from `variables`, and the code and vertex state in `memory`.
  RunLengthTable tile_memory;
  ProfileVariables variables;
  ProfileMemory memory;
  ProfileExchange exchange;
  template <typename Self, typename Visitor>
  static void Fields(Self& self, Visitor& visit) {
    visit("operations", self.operations);
    visit("origins", self.origins);
    visit("nodes", self.nodes);
    visit("steps", self.steps);
    visit("tile_compute", self.tile_compute);
    visit("tile_memory", self.tile_memory);
    visit("variables", self.variables);
    visit("memory", self.memory);
    visit("exchange", self.exchange);
  }
};

// The operations that this thread adds to programs from now on are of this part of the compiler's source; 0
// for none. Not stored in executables. Poplar's equivalent: the layers of poplar::DebugInfo.
void SetOrigin(std::uint32_t origin);

// The profile of a compiled program. After a compilation with a detailed TilePlanCache it is that of its
// analysis; otherwise the program is analysed again. Where the variables alone do not fit, steps have no
// cycles, and the memory is that of the variables, as in the report. Not for one program from several threads
// at once.
Profile ProfileOf(const poplar::Executable& executable);
Profile ProfileOf(const OutOfMemory& failure);

}  // namespace ipu_model

#endif  // IPU_MODEL_PROFILE_HPP
