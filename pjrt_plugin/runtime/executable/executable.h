// A compiled program as plain data: what the compiler returns, PJRT runs, and the cache stores. Holds no
// Python reference.
#ifndef JAX_IPU_RUNTIME_EXECUTABLE_EXECUTABLE_H_
#define JAX_IPU_RUNTIME_EXECUTABLE_EXECUTABLE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/executable/dimension_order.h"
#include "runtime/executable/tensor_spec.h"

namespace jax_ipu {

// Plain data. Each struct has a function Fields, which visits every field with its name: it serves the
// serialised form, the Python classes with their type stubs, and comparison. The order of the visits is that
// of the serialised form. A visitor has `operator()(name, value)`, and `Bytes(name, value)` for strings that
// are not text.

// How the runtime moves one argument or result. Whoever builds an Executable follows these rules:
//  - streamed input i (aliased_output < 0, write_program < 0, used): main reads stream "in<i>".
//  - unused input i: no stream, no program, 0 bytes.
//  - resident input i (donated and aliased_output = j): lives in SRAM between calls.
//    Program write_program copies stream "state<i>" from host to device, program read_program copies the
//    state to stream "state<i>.out". Main has no stream for it. outputs[j].aliased_input = i.
//    `unchanged` says that output j is the argument itself, so a host copy of it stays valid.
//  - kept input i (neither donated nor aliased, write_program >= 0): a copy lives in SRAM between calls.
//    Only program write_program writes it, from stream "state<i>". There is no read_program: the host has
//    the value, and its memory neither moves nor changes as long as the copy is used.
//  - streamed output j (aliased_input < 0, forwarded_input < 0): main writes stream "out<j>".
//  - forwarded output j (forwarded_input = i): argument i itself, not donated. No stream; it shares the
//    argument's memory. Input i may still be streamed for other uses.
//  - donated input without alias: streamed like any other, then deleted.
//  - a streamed input or output of which main moves single rows is a remote buffer of the same name in place
//    of the stream: the memory of the array, which programs never write for an input. Other remote buffers
//    of the program are called "offloaded..." and are the engine's own.
// Every stream is one tensor long. `tensor` is dense and row-major: for an array of another layout it has the
// dimensions in memory order, and `major_to_minor` says which of the array's own dimensions they are.
// Programs are indices into the executable's program list.
struct InputSpec {
  TensorSpec tensor;
  DimensionOrder major_to_minor;
  bool donated = false;     // the caller gives the buffer up (aliased or not)
  int aliased_output = -1;  // output that shares its SRAM; -1: streamed
  bool unchanged = false;   // aliased output is the argument itself
  bool used = true;         // false: not even streamed
  int write_program = -1, read_program = -1;
  // If several resident inputs have the same type: program swap_program swaps this input's state with that of
  // input swap_with, the first of them. -1: none.
  int swap_with = -1, swap_program = -1;
  std::string sharding;  // of a program over several devices: serialised xla.OpSharding; empty: replicated
  std::string name;      // for people: the path in the caller's arguments; may be empty
  bool in_host_memory = false;  // between calls: main reads what it needs of it
  bool kept() const { return aliased_output < 0 && write_program >= 0; }

  template <typename Self, typename Visitor>
  static void Fields(Self& self, Visitor& visit) {
    TensorSpec::Fields(self.tensor, visit);
    visit("major_to_minor", self.major_to_minor);
    visit("donated", self.donated);
    visit("aliased_output", self.aliased_output);
    visit("unchanged", self.unchanged);
    visit("used", self.used);
    visit("write_program", self.write_program);
    visit("read_program", self.read_program);
    visit("swap_with", self.swap_with);
    visit("swap_program", self.swap_program);
    visit.Bytes("sharding", self.sharding);
    visit("name", self.name);
    visit("in_host_memory", self.in_host_memory);
  }
};

struct OutputSpec {
  TensorSpec tensor;
  DimensionOrder major_to_minor;
  int aliased_input = -1;       // resident with that input
  int forwarded_input = -1;     // the output is that (non-resident) input, unchanged: 0 bytes
  bool in_host_memory = false;  // stays in host memory: never resident with an input
  std::string sharding;
  std::string name;  // as that of an input

  template <typename Self, typename Visitor>
  static void Fields(Self& self, Visitor& visit) {
    TensorSpec::Fields(self.tensor, visit);
    visit("major_to_minor", self.major_to_minor);
    visit("aliased_input", self.aliased_input);
    visit("forwarded_input", self.forwarded_input);
    visit("in_host_memory", self.in_host_memory);
    visit.Bytes("sharding", self.sharding);
    visit("name", self.name);
  }
};

// A function of the process that compiled the executable (runtime/host_calls/host_callbacks.h), which the
// program calls as the host function "callback<id>".
struct HostCallbackSpec {
  std::uint64_t id = 0;
  std::vector<std::uint64_t> input_bytes, output_bytes;

  template <typename Self, typename Visitor>
  static void Fields(Self& self, Visitor& visit) {
    visit("id", self.id);
    visit("input_bytes", self.input_bytes);
    visit("output_bytes", self.output_bytes);
  }
};

// A typed attribute of a foreign function call: a scalar, an array or a string in `data`, or a dictionary of
// `members`, which are sorted by name.
struct FfiAttribute {
  enum class Kind : std::uint8_t { kScalar, kArray, kString, kDictionary, kCount };
  std::string name;
  Kind kind = Kind::kDictionary;
  DType type = DType::kU8;  // of scalars and arrays
  std::string data;
  std::vector<FfiAttribute> members;

  template <typename Self, typename Visitor>
  static void Fields(Self& self, Visitor& visit) {
    visit("name", self.name);
    visit("kind", self.kind);
    visit("dtype", self.type);
    visit.Bytes("data", self.data);
    visit("members", self.members);
  }
};

// An operand or result of a foreign function: its dimensions in the array's own order; the memory is dense,
// in the order of the layout that the call asks for.
struct FfiBuffer {
  TensorSpec tensor;
  bool is_token = false;

  template <typename Self, typename Visitor>
  static void Fields(Self& self, Visitor& visit) {
    TensorSpec::Fields(self.tensor, visit);
    visit("is_token", self.is_token);
  }
};

// A call of a foreign function that this process has registered for ipu (runtime/host_calls/ffi_handlers.h).
// The program calls the i-th as the host function "ffi<i>", whose operands and results are the buffers that
// have elements.
struct FfiCallSpec {
  std::string target;
  std::string location;  // the user's source line
  std::vector<FfiBuffer> operands, results;
  std::vector<int> aliased_operands;  // for each result: the operand whose memory it is, or -1
  FfiAttribute attributes;

  template <typename Self, typename Visitor>
  static void Fields(Self& self, Visitor& visit) {
    visit("target", self.target);
    visit("location", self.location);
    visit("operands", self.operands);
    visit("results", self.results);
    visit("aliased_operands", self.aliased_operands);
    visit("attributes", self.attributes);
  }
};

struct CostReport {
  double flops = 0, bytes_accessed = 0, transcendentals = 0;
  std::uint64_t cycles = 0;  // per call of main; a loop with an unknown trip count counts as one trip
  std::uint64_t compute_cycles = 0, exchange_cycles = 0, sync_cycles = 0;
  std::uint64_t exchange_bytes = 0;  // between tiles, per call
  std::uint64_t link_bytes = 0;      // received from other IPUs, per call
  double clock_hz = 0;
  double host_nanoseconds = 0;  // estimated run time of the fast engine: decides inline or queued execution

  template <typename Self, typename Visitor>
  static void Fields(Self& self, Visitor& visit) {
    visit("flops", self.flops);
    visit("bytes_accessed", self.bytes_accessed);
    visit("transcendentals", self.transcendentals);
    visit("cycles", self.cycles);
    visit("compute_cycles", self.compute_cycles);
    visit("exchange_cycles", self.exchange_cycles);
    visit("sync_cycles", self.sync_cycles);
    visit("exchange_bytes", self.exchange_bytes);
    visit("link_bytes", self.link_bytes);
    visit("clock_hz", self.clock_hz);
    visit("host_nanoseconds", self.host_nanoseconds);
  }
};

struct MemoryReport {
  std::uint64_t total_bytes = 0, max_tile_bytes = 0, limit_tile_bytes = 0;
  unsigned max_tile = 0, num_tiles = 0;
  std::uint64_t argument_bytes = 0, output_bytes = 0, alias_bytes = 0, temp_bytes = 0, code_bytes = 0,
                constant_bytes = 0, exchange_buffer_bytes = 0, vertex_bytes = 0;
  // Arguments and results in host memory, which the fields above leave out.
  std::uint64_t host_argument_bytes = 0, host_output_bytes = 0;

  template <typename Self, typename Visitor>
  static void Fields(Self& self, Visitor& visit) {
    visit("total_bytes", self.total_bytes);
    visit("max_tile_bytes", self.max_tile_bytes);
    visit("limit_tile_bytes", self.limit_tile_bytes);
    visit("max_tile", self.max_tile);
    visit("num_tiles", self.num_tiles);
    visit("argument_bytes", self.argument_bytes);
    visit("output_bytes", self.output_bytes);
    visit("alias_bytes", self.alias_bytes);
    visit("temp_bytes", self.temp_bytes);
    visit("code_bytes", self.code_bytes);
    visit("constant_bytes", self.constant_bytes);
    visit("exchange_buffer_bytes", self.exchange_buffer_bytes);
    visit("vertex_bytes", self.vertex_bytes);
    visit("host_argument_bytes", self.host_argument_bytes);
    visit("host_output_bytes", self.host_output_bytes);
  }
};

struct Executable {
  std::string name;
  std::string fingerprint;
  std::string target;  // architecture and tiles it was compiled for, e.g. "ipu2:1472"
  int num_replicas = 1, num_partitions = 1;
  std::vector<InputSpec> inputs;
  std::vector<OutputSpec> outputs;
  std::string poplar_executable;  // ipu_model::SerialiseContent
  std::vector<HostCallbackSpec> host_callbacks;
  std::vector<FfiCallSpec> ffi_calls;
  int main_program = 0;
  bool communicates = false;  // the replicas, in the main program: they must run at the same time
  // The Poplar program has the programs of several executables (Image): it is made and used in one process.
  bool is_linked = false;
  std::string link_group;  // programs of one group are linked when they share arrays; may be empty
  std::string mlir;        // optimised program, MLIR bytecode or text, with output sharding attributes
  CostReport cost;
  MemoryReport memory;

  template <typename Self, typename Visitor>
  static void Fields(Self& self, Visitor& visit) {
    visit("name", self.name);
    visit("fingerprint", self.fingerprint);
    visit("target", self.target);
    visit("num_replicas", self.num_replicas);
    visit("num_partitions", self.num_partitions);
    visit("inputs", self.inputs);
    visit("outputs", self.outputs);
    visit.Bytes("poplar_executable", self.poplar_executable);
    visit("host_callbacks", self.host_callbacks);
    visit("ffi_calls", self.ffi_calls);
    visit("main_program", self.main_program);
    visit("communicates", self.communicates);
    visit("is_linked", self.is_linked);
    visit("link_group", self.link_group);
    visit.Bytes("mlir", self.mlir);
    visit("cost", self.cost);
    visit("memory", self.memory);
  }
  // Whether it calls functions of this process; they may wait for the next action of the program's caller.
  bool calls_host() const { return !host_callbacks.empty() || !ffi_calls.empty(); }

  // The ids of the IPUs that it was compiled for, replica by replica; empty where nobody says.
  std::vector<int> devices;

  // ipu_model::Seal, then the fields, then the devices: these or others.
  std::string Serialize() const { return Serialize(devices); }
  std::string Serialize(const std::vector<int>& placed) const;
  // Safe for any bytes: checks that the fields agree with each other. Whether they agree with the program in
  // poplar_executable is checked when that program is read (runtime/executable/executable_checks.h). Throws
  // Error(kInvalidArgument), which says what is wrong.
  static Executable Deserialize(std::string_view bytes);
};

// absl/PJRT status codes.
enum class Code : int {
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
  kUnauthenticated = 16
};

class Error : public std::runtime_error {
 public:
  Error(Code code, const std::string& message) : std::runtime_error(message), code(code) {}
  Code code;
};

// What PJRT hands to the compiler. `program` is the caller's memory, valid during the call: it may hold large
// constants. `options` is a serialised xla.CompileOptionsProto.
struct CompileRequest {
  std::string_view program;
  std::string format, options, target;
};
// Set by the plugin (calls a compile server) or the binding layer (calls Python). Called without the GIL, on
// any thread; throws Error.
using Compiler = std::function<std::shared_ptr<const Executable>(const CompileRequest&)>;

// The configuration of the client's devices; read when the client is created.
struct DeviceConfig {
  std::string version = "ipu2";  // ipu1, ipu2, ipu21, bow
  unsigned num_tiles = 0;        // 0: all tiles of the architecture
  std::vector<int> device_ids = {0};
  std::string execution = "fast";  // fast, tile, codelets
  bool use_model = true;
  bool monitored = true;     // whether other processes can see the counters (runtime/recording/usage.h)
  std::string usage_folder;  // where the counters are, and stay when the process ends; empty: UsageFolder()
  bool synthetic_data = false;  // nothing crosses the host link, and values are meaningless
  // Programs that take each other's arrays share an engine, where they fit together; false: those only that
  // are of one link group.
  bool link = true;
  std::string trace_planes = "custom";  // custom, tpu: see profiling/trace_planes.h
};

// Totals since the client was created; read by jax_ipu.counters(device). Bytes count what crosses between
// host memory and tile memory; cycles are those of the cost report, with the trips that loops really made
// (If and Switch: their most expensive branch), and of copies between IPUs.
struct Counters {
  std::uint64_t h2d_bytes = 0, d2h_bytes = 0, engine_loads = 0, runs = 0, cycles = 0;
  std::uint64_t link_bytes =
      0;  // received from other IPUs: by copies, and by programs as their cost reports say
};
// Waits for the work that the device has queued, so call it without the GIL. Throws Error(kNotFound) when no
// client has been created or it has no such device.
Counters ReadCounters(int device_id);

// Whether the framework must see every read of an array, also of results that are on the host already, so
// that it can log or forbid it. A thread's setting takes precedence over the process's.
void GuardReads(bool guarded);
void GuardReadsOfThread(std::optional<bool> guarded);
bool AreReadsGuarded();

// Waits for the work that all devices have queued. Called without the GIL.
void FinishWork();

// For the end of a Python process that has daemon threads: finishes the queued work of all devices. From then
// on no other thread can start work or return from it. Called without the GIL, by the thread that exits.
void PrepareExit();

}  // namespace jax_ipu

#endif  // JAX_IPU_RUNTIME_EXECUTABLE_EXECUTABLE_H_
