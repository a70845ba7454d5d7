// Everything that a runtime needs beyond Poplar and PopLibs: replicas in threads of one process, cycles of a
// run, the device report, plans that several compilations share, the host's threads and instruction set. A
// build against Graphcore's SDK replaces this file and its implementation; each declaration names Poplar's
// own equivalent.
#ifndef IPU_MODEL_MODEL_HPP
#define IPU_MODEL_MODEL_HPP

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ipu_model/Types.hpp"
#include "poplar/Device.hpp"
#include "poplar/Executable.hpp"
#include "poplar/Graph.hpp"
#include "poplar/OptionFlags.hpp"
#include "poplar/Program.hpp"
#include "poplar/Target.hpp"
#include "poplar/Tensor.hpp"
#include "poplar/Type.hpp"
#include "poplar/exceptions.hpp"

namespace poplar {
class Engine;
}

namespace ipu_model {

struct CompiledProgram;  // engine/program/compiled_program.h

// ---- Types.
// Poplar's equivalent: none; it has fewer types than ipu_model/Types.hpp.

DType DTypeOf(const poplar::Type& type);
// Throws poplar::poplar_error for a type that this Poplar lacks; the model has all.
poplar::Type TypeOf(DType type);

// ---- Devices and engines.

// A device for programs of one IPU. `tilesPerIPU` 0: all of the architecture. Not `useModel`: hardware.
// Throws poplar::poplar_error where there is none.
poplar::Device DeviceOf(const std::string& architecture, unsigned tilesPerIPU, bool useModel);
// The options of an engine that a runtime makes for each replica, and whose input streams stay in place while
// a program uses them. `execution`: "fast", "tile" or "codelets" (RunExpansions). Poplar's equivalent: none
// of these options.
poplar::OptionFlags OptionsOfEngine(const std::string& execution);
// A number for a stream of the engine, for ConnectStream, which then needs no search by name. Throws
// poplar::stream_connection_error. Poplar's equivalent: Engine::connectStream.
int StreamNumber(const poplar::Engine& engine, const std::string& handle);
void ConnectStream(poplar::Engine& engine, int stream, void* host);
// Makes `host` the memory of a remote buffer of the engine's replica, row after row; null: memory of its own
// again. Throws poplar::stream_connection_error. Poplar's equivalent: Engine::copyToRemoteBuffer of each row
// before a run, copyFromRemoteBuffer after it.
void ConnectRemoteBuffer(poplar::Engine& engine, const std::string& handle, void* host);
// Bytes that programs have copied from and to remote buffers since the engine was made. Poplar's equivalent:
// none.
struct RemoteTraffic {
  std::uint64_t bytes_read = 0, bytes_written = 0;
};
RemoteTraffic RemoteTrafficOf(poplar::Engine& engine);

// ---- Replicas.
// Poplar's equivalent: one Engine runs all replicas of a graph, each on its IPU, and GCL moves their
// tensors over the IPU-Links. In the model every replica has an Engine and a thread of its own, possibly in
// another process.

// Thrown by Engine::run: a replica waits in a collective for one that has ended its program.
struct ReplicaMissing : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The replicas of a launch that other processes run. The runtime implements it.
class RemoteReplicas {
 public:
  virtual ~RemoteReplicas() = default;
  virtual bool IsHere(unsigned replica) const = 0;
  // Replicas of one process have the same number.
  virtual int ProcessOf(unsigned replica) const = 0;

  // The data that a collective moves between this process and another. Both sides name the first of the
  // collective's replicas in each process; collectives with the same pair run in the same order on both
  // sides.
  struct Transfer {
    unsigned here = 0, there = 0;
    std::vector<unsigned char> out, in;  // `in` has the size of the data to receive
  };
  // Returns when everything is sent and received. Several threads call it at once, for different replicas.
  // An exception that it throws ends the run.
  virtual void Carry(std::uint32_t channel, std::vector<Transfer>& transfers) = 0;

  // A replica of this process ends because of an error: replicas in other processes must not wait for it.
  virtual void Fail(const std::string& reason) = 0;
};

class Meetings;  // kernels/collectives/replicas.h

// The replicas of one launch. Thread safe.
class ReplicaGroup {
 public:
  // `remote`: null when all replicas are in this process; otherwise it must outlive the group.
  explicit ReplicaGroup(unsigned size, RemoteReplicas* remote = nullptr);
  ReplicaGroup(const ReplicaGroup&) = delete;
  ReplicaGroup& operator=(const ReplicaGroup&) = delete;
  ~ReplicaGroup();

  unsigned size() const { return size_; }

  // For runtimes that replace an Engine. All replicas of a launch in one process call it, each with `bytes`
  // bytes at `data`; `take` gets the memory of every replica, in order. Returns when `take` of all replicas
  // has returned. Throws ReplicaMissing when a replica has left.
  void Gather(std::uint32_t channel, unsigned replica, const void* data, std::size_t bytes,
              const std::function<void(const std::vector<const void*>&)>& take);

  // The replica has ended its program and takes part in no collective any more.
  void Leave(unsigned replica);

  Meetings& meetings() { return *meetings_; }  // internal

 private:
  const unsigned size_;
  std::unique_ptr<Meetings> meetings_;
};

// Which replica of which launch a program runs as. Without a group it cannot take part in collectives.
struct Replica {
  ReplicaGroup* group = nullptr;
  unsigned index = 0;
};

// The next runs of `engine` are runs of this replica. Throws poplar::poplar_error when the group's size is
// not the graph's replication factor. The group must outlive the runs.
void SetReplica(poplar::Engine& engine, const Replica& replica);

// ---- Ending a run early.
// Poplar's equivalent: none; Device::reset ends what runs on a device.

// Thrown by Engine::run when the run was cancelled.
struct RunCancelled : poplar::runtime_error {
  using poplar::runtime_error::runtime_error;
};

// The next runs of `engine` end with RunCancelled at the first superstep after `*cancelled` has become true.
// The variables then hold an unspecified mixture of old and new values. `poll`, unless empty, is called
// repeatedly on the thread of the run. Null: runs are not cancelled, as in a new engine.
void SetCancellation(poplar::Engine& engine, const std::atomic<bool>* cancelled,
                     std::function<void()> poll = {});

// ---- Ending a compilation early.
// Poplar's equivalent: none; an exception of compileGraph's ProgressFunc ends one between two operations.

// Thrown by what plans operations when the deadline of its thread is over.
struct OutOfTime : std::runtime_error {
  OutOfTime() : std::runtime_error("planning took longer than it may") {}
};

// While it lives, what its thread plans (a graph that is compiled, with all threads that help, and the
// functions of PopLibs that choose tile mappings) throws OutOfTime after `seconds`, also within the planning
// of one operation. Inside of another deadline, the earlier one counts. Ends on its own thread, the last
// first.
class Deadline {
 public:
  explicit Deadline(double seconds);
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;
  ~Deadline();

  std::chrono::steady_clock::time_point when() const { return when_; }

 private:
  const Deadline* const outer_;
  std::chrono::steady_clock::time_point when_;
};

// Throws OutOfTime where the deadline of this thread is over.
void CheckDeadline();

// ---- Cycles of a run.
// Poplar's equivalent: poplar::cycleCount around a program, or the execution profile of PopVision.

// Tile clock cycles of the last run of a main program: its report's cycles, with the trips that loops really
// made; If and Switch count their most expensive branch. 0 after a run of another program.
std::uint64_t LastRunCycles(const poplar::Engine& engine);

// Tile clock cycles of moving `bytes` bytes from IPU `from` to IPU `to` of the `ring` IPUs that IPU-Links
// join in a ring. Poplar's equivalent: none, copies between IPUs are programs.
std::uint64_t LinkCopyCycles(const poplar::Target& target, unsigned from, unsigned to, unsigned ring,
                             std::uint64_t bytes);

// Fixed cycles of one local copy on a tile. Poplar's equivalent: none; see core/target/target_model.cc for
// the source.
unsigned LocalCopyCallCycles(const poplar::Target& target);

// Bytes at the start of each tile's memory that instructions can be in. Poplar's equivalent: none.
std::uint32_t CodeBytesPerTile(const poplar::Target& target);

// Tile clock cycles of `transfers` copies between the host and the IPU, in one direction, of `bytes` bytes
// together. Poplar's equivalent: none; the execution profile shows them as StreamCopy.
std::uint64_t HostLinkCycles(const poplar::Target& target, std::uint64_t transfers, std::uint64_t bytes);

// ---- What data sheets say of a chip. Poplar's equivalent: none; see core/target/target_model.cc for the
// sources.

// Floating-point operations per second of the matrix units of all tiles, for half operands: the most that the
// chip can do with them.
double PeakFlops(const poplar::Target& target);
// Bytes per second that the tiles together can load from their memory.
double SramBytesPerSecond(const poplar::Target& target);
// Bytes per second, in one direction: over the host link, and to each neighbour in the ring of IPUs.
double HostLinkBytesPerSecond(const poplar::Target& target);
double IpuLinkBytesPerSecond(const poplar::Target& target);
// Bytes of streaming memory that each of so many IPUs has, at most: those of a machine share it. 0: there is
// none, or its size is not known.
std::uint64_t StreamingMemoryBytes(const poplar::Target& target, unsigned ipus);

// ---- Names.

// For reports: what is added to `sequence` from now on belongs to `scope`, the framework's name of what it
// computes, such as "jit(f)/dense/dot_general". Poplar's equivalent: the parents of a DebugContext.
void SetNameScope(poplar::program::Sequence& sequence, const std::string& scope);

// ---- The device report.
// Poplar's equivalent: the graph profile (Engine::getProfile, the PopVision Analysis library `pva`).
// Each struct has a function Fields, which visits every field with its name: it serves the serialised form
// and the bindings of other languages.

// Tile clock cycles of one execution, unless said otherwise.
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
  template <typename Self, typename Visitor>
  static void Fields(Self& self, Visitor& visit) {
    visit("compute", self.compute);
    visit("exchange", self.exchange);
    visit("sync", self.sync);
  }
};

struct OperationCost {
  std::string kind, name;
  std::string scope;             // see SetNameScope
  std::uint64_t executions = 0;  // per call of the main program
  Cycles cycles;                 // all executions together
  std::uint64_t exchange_bytes = 0;
  std::uint64_t link_bytes = 0;  // received from other IPUs
  double flops = 0;
  unsigned tiles = 0;                 // that compute
  std::vector<std::string> codelets;  // without repetition, in alphabetical order
  // Over all tiles: its codelets, exchange code and control code. A codelet that several operations use
  // counts for each of them here, and once per tile in Report::code_bytes.
  std::uint64_t code_bytes = 0;
  template <typename Self, typename Visitor>
  static void Fields(Self& self, Visitor& visit) {
    visit("kind", self.kind);
    visit("name", self.name);
    visit("scope", self.scope);
    visit("executions", self.executions);
    visit("compute_cycles", self.cycles.compute);
    visit("exchange_cycles", self.cycles.exchange);
    visit("sync_cycles", self.cycles.sync);
    visit("exchange_bytes", self.exchange_bytes);
    visit("link_bytes", self.link_bytes);
    visit("flops", self.flops);
    visit("tiles", self.tiles);
    visit("codelets", self.codelets);
    visit("code_bytes", self.code_bytes);
  }
};

// A loop whose trip count is known at run time only. Totals count its condition and its body once each; a run
// of t trips costs (t - 1) more bodies and t more conditions.
struct LoopCost {
  std::uint32_t node = 0;  // its number among the nodes of the executable's programs, then functions
  std::string name;
  Cycles condition, body;
  template <typename Self, typename Visitor>
  static void Fields(Self& self, Visitor& visit) {
    visit("node", self.node);
    visit("name", self.name);
    visit("condition", self.condition);
    visit("body", self.body);
  }
};

struct TileUse {
  unsigned tile = 0;
  std::uint64_t bytes = 0;
  template <typename Self, typename Visitor>
  static void Fields(Self& self, Visitor& visit) {
    visit("tile", self.tile);
    visit("bytes", self.bytes);
  }
};

struct TensorUse {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::uint64_t bytes = 0;          // over all tiles
  std::uint64_t bytes_on_tile = 0;  // on the fullest tile
  std::string role;                 // "variable", "constant", "temporary", "exchange buffer"
  bool lasting = false;             // keeps its contents between runs
  template <typename Self, typename Visitor>
  static void Fields(Self& self, Visitor& visit) {
    visit("name", self.name);
    visit("dtype", self.dtype);
    visit("shape", self.shape);
    visit("bytes", self.bytes);
    visit("bytes_on_tile", self.bytes_on_tile);
    visit("role", self.role);
    visit("lasting", self.lasting);
  }
};

// The contents of one tile at the moment when it holds most, in bytes.
struct TilePeak {
  std::uint64_t variables = 0, temporaries = 0, exchange_buffers = 0, constants = 0, vertex_state = 0,
                code = 0;
  // The variables alone are too large, so nothing else was planned.
  bool variables_only = false;
  std::string operation;           // the one that runs at that moment, "" for none
  std::vector<TensorUse> tensors;  // all tensors on the tile, largest first
  template <typename Self, typename Visitor>
  static void Fields(Self& self, Visitor& visit) {
    visit("variables", self.variables);
    visit("temporaries", self.temporaries);
    visit("exchange_buffers", self.exchange_buffers);
    visit("constants", self.constants);
    visit("vertex_state", self.vertex_state);
    visit("code", self.code);
    visit("variables_only", self.variables_only);
    visit("operation", self.operation);
    visit("tensors", self.tensors);
  }
};

struct Report {
  // Cycles of program 0.
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
  std::uint64_t overlapped_link_cycles = 0;  // of host_link_cycles, those in which other tiles compute
  // The part of the first three that is of remote buffers, over the link to the streaming memory.
  std::uint64_t streaming_in_bytes = 0, streaming_out_bytes = 0, streaming_cycles = 0;

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
  // Of max_tile when not everything fits.
  TilePeak peak;
  // The largest number of bytes that variables occupy on all tiles together at any moment.
  std::uint64_t peak_variable_bytes = 0;
  template <typename Self, typename Visitor>
  static void Fields(Self& self, Visitor& visit) {
    visit("cycles", self.cycles);
    visit("exchange_bytes", self.exchange_bytes);
    visit("link_bytes", self.link_bytes);
    visit("flops", self.flops);
    visit("clock_hz", self.clock_hz);
    visit("unknown_trip_count", self.unknown_trip_count);
    visit("loops", self.loops);
    visit("operations", self.operations);
    visit("stream_in_bytes", self.stream_in_bytes);
    visit("stream_out_bytes", self.stream_out_bytes);
    visit("host_link_cycles", self.host_link_cycles);
    visit("overlapped_link_cycles", self.overlapped_link_cycles);
    visit("streaming_in_bytes", self.streaming_in_bytes);
    visit("streaming_out_bytes", self.streaming_out_bytes);
    visit("streaming_cycles", self.streaming_cycles);
    visit("num_tiles", self.num_tiles);
    visit("limit_tile_bytes", self.limit_tile_bytes);
    visit("max_tile_bytes", self.max_tile_bytes);
    visit("total_bytes", self.total_bytes);
    visit("max_tile", self.max_tile);
    visit("variable_bytes", self.variable_bytes);
    visit("constant_bytes", self.constant_bytes);
    visit("temporary_bytes", self.temporary_bytes);
    visit("exchange_buffer_bytes", self.exchange_buffer_bytes);
    visit("vertex_bytes", self.vertex_bytes);
    visit("code_bytes", self.code_bytes);
    visit("fullest_tiles", self.fullest_tiles);
    visit("largest_tensors", self.largest_tensors);
    visit("out_of_memory", self.out_of_memory);
    visit("peak", self.peak);
    visit("peak_variable_bytes", self.peak_variable_bytes);
  }
};

// Of a main program: of another than program 0, the cycles are its own. Valid as long as the executable or a
// copy of it.
const Report& ReportOf(const poplar::Executable& executable, unsigned main = 0);

// Rough run time of a main program on the host, in nanoseconds: only good enough to tell short programs from
// long ones. Poplar's equivalent: none.
double HostNanoseconds(const poplar::Executable& executable, unsigned main = 0);

// ---- Compilations that share plans.

// Plans of operations, shared by several compilations for one target, such as the attempts to make a program
// fit: an operation is planned once for each tile mapping of its operands. Not thread safe. Poplar's
// equivalent: poplin::matmul::PlanningCache, for products only; `poll` is compileGraph's ProgressFunc.
class TilePlanCache {
 public:
  // `detailed`: plans also have what ProfileOf needs, and programs keep it: more time and memory.
  explicit TilePlanCache(bool detailed = false);
  TilePlanCache(const TilePlanCache&) = delete;
  TilePlanCache& operator=(const TilePlanCache&) = delete;
  ~TilePlanCache();

  std::size_t size() const;  // number of plans
  bool detailed() const { return detailed_; }
  // Whether an operation whose buffers do not fit is planned again with smaller ones, in more supersteps.
  bool limits_buffers = true;
  // Called by the compiling thread between operations, with the number of planned operations and the total
  // number. An exception that it throws ends the compilation.
  std::function<void(std::size_t done, std::size_t total)> poll;

  struct Plans;  // engine/cost/operation_plans.h
  Plans& plans() { return *plans_; }

 private:
  std::unique_ptr<Plans> plans_;
  const bool detailed_;
};

// A program that is too large for the tiles, with its report.
// Poplar's equivalent: graph_memory_allocation_error and its profile path.
struct OutOfMemory : poplar::graph_memory_allocation_error {
  OutOfMemory(const std::string& message, Report r, std::shared_ptr<const CompiledProgram> p)
      : poplar::graph_memory_allocation_error(message), report(std::move(r)), program(std::move(p)) {}
  Report report;
  std::shared_ptr<const CompiledProgram> program;  // for ProfileOf
};

// poplar::compileGraph with a name for messages and shared plans (`cache` is not null). Throws OutOfMemory,
// and the exceptions of compileGraph. `further_mains`: the programs beside program 0 whose cycles are
// counted.
poplar::Executable CompileGraph(const poplar::Graph& graph,
                                const std::vector<poplar::program::Program>& programs,
                                const std::string& name, TilePlanCache* cache,
                                const std::vector<unsigned>& further_mains = {});

// ---- Tensors.

// Whether the tensor is one strided view of a variable. Poplar's equivalent: Tensor::getContiguousRegions.
bool IsStrided(const poplar::Tensor& tensor);
// Whether it is one dense row-major view. Poplar's equivalent: Tensor::isContiguous, which is also true of
// reshaped views.
bool IsRowMajor(const poplar::Tensor& tensor);
// A new variable with the shape, the tiles and the memory order of `like`, which may be a transposed view,
// and another type. Like Graph::clone, Poplar's equivalent, if `like` is not a dense view of a whole
// variable.
poplar::Tensor NewTensorMappedLike(poplar::Graph& graph, const poplar::Type& type, const poplar::Tensor& like,
                                   const std::string& name);

// ---- Codelets.

// Writes a file for Graph::addCodelets, which is to end in .gp, with the source of codelets and all that it
// includes, after compiling them. Returns the names of the vertex classes. Throws the exceptions of
// addCodelets. Poplar's equivalent: the program popc.
std::vector<std::string> CompileCodelets(const std::vector<std::string>& paths, const std::string& flags,
                                         const std::string& output);

// ---- The host that runs the model.
// Poplar's equivalent: none; on hardware the host only moves data.

struct HostKernels {
  std::string instruction_set;  // "avx2" or "avx512"
  int threads = 0;              // of the pool, the caller's included
};

// The instruction set and threads of this process's kernels. Cannot change after this call or the first
// kernel.
HostKernels KernelsOfHost();

// Replaces the default, which comes from the environment variables JAX_IPU_MAX_ISA, JAX_IPU_HOST_THREADS and
// JAX_IPU_MACHINE_CODE. `avx512` false: use the kernels for AVX2 even if the processor has AVX-512. `threads`
// 0: one for each processor that the process may use. `machine_code`: whether loops of small operations may
// become machine code at run time. Returns false if another choice is final already.
bool LimitHostKernels(bool avx512, int threads, bool machine_code);

// Whether f16 results are rounded stochastically from now on, in the whole process, as tiles do after
// poplar::setStochasticRounding; otherwise to nearest even. Each tile of the tile engine has a generator of
// its own, the fast engine has one; a seed makes them repeat as far as kernels run in one order, which one
// thread does. Without effect on loops that are machine code.
void SetStochasticRounding(bool enabled, std::uint64_t seed);

// Keeps the calling thread from flushing denormal numbers to zero, as engines do, while the object exists:
// for user code that a program calls.
class KeepDenormals {
 public:
  KeepDenormals();
  ~KeepDenormals();
  KeepDenormals(const KeepDenormals&) = delete;
  KeepDenormals& operator=(const KeepDenormals&) = delete;

 private:
  unsigned saved_;
};

}  // namespace ipu_model

#endif  // IPU_MODEL_MODEL_HPP
