// Compiles graphs and runs them. Source: Graphcore's Poplar and PopLibs API reference, class poplar::Engine.
#ifndef POPLAR_ENGINE_HPP
#define POPLAR_ENGINE_HPP

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <type_traits>
#include <vector>

#include "ipu_model/Owned.hpp"
#include "poplar/ArrayRef.hpp"
#include "poplar/Device.hpp"
#include "poplar/Executable.hpp"
#include "poplar/Graph.hpp"
#include "poplar/HostFunctionCallback.hpp"
#include "poplar/OptionFlags.hpp"
#include "poplar/ProfileValue.hpp"
#include "poplar/Program.hpp"
#include "poplar/Quarter.hpp"
#include "poplar/StreamCallback.hpp"
#include "pva/pva.hpp"

// Programs use these without including them: Graphcore's headers bring them.
#include <cassert>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iomanip>
#include <iostream>
#include <map>

namespace poplar {
class Engine;
}

namespace hlo {
class Expansions;  // hlo/Expansion.hpp
}

namespace ipu_model {
class EngineState;  // engine/engine_state.h
struct LoopRun;
struct Replica;
// ipu_model/Model.hpp, ipu_model/Timeline.hpp
void SetReplica(poplar::Engine& engine, const Replica& replica);
void SetCancellation(poplar::Engine& engine, const std::atomic<bool>* cancelled, std::function<void()> poll);
std::uint64_t LastRunCycles(const poplar::Engine& engine);
std::vector<LoopRun> LastRunLoops(const poplar::Engine& engine);
struct RemoteTraffic;
void ConnectRemoteBuffer(poplar::Engine& engine, const std::string& handle, void* host);
RemoteTraffic RemoteTrafficOf(poplar::Engine& engine);
struct ExpandedKinds;  // hlo/Expansion.hpp
void RunExpansions(poplar::Engine& engine, const hlo::Expansions& library);
ExpandedKinds KindsRunBy(const poplar::Engine& engine);
}  // namespace ipu_model

namespace poplar {

// Called during a compilation with the steps that are done and their number.
using ProgressFunc = std::function<void(int, int)>;

// Programs are numbered as given; number 0 is the main program, which reports describe. Throws
// invalid_tile_mapping, control_program_error, invalid_option for options that Engine does not take, or
// graph_memory_allocation_error when a tile's memory is too small for the programs. The graph's programs must
// not be changed afterwards.
Executable compileGraph(const Graph& graph, const std::vector<program::Program>& programs,
                        const OptionFlags& options = {}, const ProgressFunc& progress = {},
                        const DebugContext& debugContext = {});
// The same, with a name. A template, so that a list in braces is always a list of options.
template <typename Name, std::enable_if_t<std::is_convertible_v<const Name&, DebugContext>, int> = 0>
Executable compileGraph(const Graph& graph, const std::vector<program::Program>& programs, const Name& name) {
  return compileGraph(graph, programs, OptionFlags(), ProgressFunc(), DebugContext(name));
}

// Runs the programs of one executable, on all replicas of the graph. Not thread safe. Options of the model:
// "execution": "fast" (default: one host kernel per operation) or "tile" (every vertex by itself, on the data
// that the exchange delivered, with checks of what codelets write).
// "vertexTimeLimit": the seconds of processor time after which a vertex of a codelet is ended with
// runtime_error, default "10".
// "streamMemoryStays": "true" promises that streams have no callbacks and that the memory of an input stream
// neither moves nor changes as long as any program uses the data read from it, so that the fast engine need
// not copy it; default "false".
// "replicas": "all" (default) or "one", for a runtime that has an engine for each replica.
// Options of Poplar with an effect: "autoReport.all", "autoReport.outputGraphProfile",
// "autoReport.outputExecutionProfile", "autoReport.directory" and
// "autoReport.executionProfileProgramRunCount": profile.pop is written when the engine is made and after the
// first runs. "debug.allowOutOfMemory" = "true" compiles programs that do not fit, too: such an engine has a
// profile, and its load throws graph_memory_allocation_error. "exchange.streamBufferOverlap" = "none" lets
// callbacks prefetch, unless "exchange.enablePrefetch" is "false". The other options of Poplar are checked
// and change nothing. The environment variable POPLAR_ENGINE_OPTIONS, a JSON object, overrides options.
class Engine {
 public:
#ifndef POPLAR_API_ONLY
  using StreamIndex = std::uint32_t;
#endif
  using TimerTimePoint = std::chrono::steady_clock::time_point;

  explicit Engine(const Executable& executable, const OptionFlags& options = {});
  Engine(const Graph& graph, const program::Program& program, const OptionFlags& options = {},
         const ProgressFunc& progress = {}, const DebugContext& debugContext = {});
  Engine(const Graph& graph, const std::vector<program::Program>& programs, const OptionFlags& options = {},
         const ProgressFunc& progress = {}, const DebugContext& debugContext = {});
  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;
  ~Engine();

  // Zeroes the variables and makes the engine ready to run: no state survives a load. `prepare` checks that
  // the device fits, `deploy` does the rest.
  void load(const Device& device);
  void load();
  void prepare(const Device& device);
  void deploy() { load(); }

  // `debugName` is for the profile. Throws application_runtime_error with the program's message when the
  // program aborts, stream_connection_error when a stream that it uses has no host memory.
  void run(unsigned program = 0, const std::string& debugName = "");
  void loadAndRun(const Device& device, unsigned program = 0, const std::string& debugName = "");

  // Throw stream_connection_error for a stream or a replica that there is not, for memory that is no multiple
  // of a transfer, and for a null pointer. Every transfer reads or writes the memory at `begin`, one stream
  // length of elements; the bytes of an input must not change and those of an output must not be read while a
  // program runs. Memory of inputs and outputs must not overlap. The replicas' lengths follow each other in
  // memory, unless the stream is broadcast.
  void connectStream(const std::string& handle, void* begin);
  // Successive transfers, also over runs, move through [begin, end) and then start over. Without `replica`,
  // the memory is that of all replicas, and so is a callback.
  void connectStream(const std::string& handle, void* begin, void* end);
  void connectStream(const std::string& handle, unsigned replica, void* begin, void* end);
#ifndef POPLAR_API_ONLY
  void connectStream(StreamIndex stream, void* begin);
  StreamIndex streamIndex(const std::string& handle) const;
#endif
  // Calls the callback at each transfer, on the thread that runs the program.
  void connectStreamToCallback(const std::string& handle, StreamCallbackHandle callback);
  void connectStreamToCallback(const std::string& handle, unsigned replica, StreamCallbackHandle callback);
  // The streams' names, each followed by '+' (host to device) or '-' (device to host).
  std::vector<std::string> listStreams() const;

  // Called on the thread that runs the program, with dense row-major operands that are valid during the call.
  // An exception that it throws ends the run.
  using HostFunctionCallback =
      std::function<void(const std::vector<const void*>& inputs, const std::vector<void*>& outputs)>;
  void connectHostFunction(const std::string& handle, unsigned replica, HostFunctionCallback callback);
  template <typename Callback, std::enable_if_t<std::is_base_of_v<HostCallback, Callback>, int> = 0>
  void connectHostFunction(const std::string& handle, unsigned replica, std::unique_ptr<Callback> callback) {
    connectHostFunction(handle, replica, HostFunctionCallback(HostCallbackHandle(std::move(callback))));
  }

  // Copies [begin, end), in row-major order, to the tensor of Graph::createHostWrite on all replicas or on
  // one, or from that of createHostRead on one. Throws stream_connection_error for an unknown handle, fewer
  // bytes and a null pointer.
  void writeTensor(const std::string& handle, const void* begin, const void* end);
  void writeTensor(const std::string& handle, unsigned replica, const void* begin, const void* end);
  void readTensor(const std::string& handle, void* begin, void* end) { readTensor(handle, 0, begin, end); }
  void readTensor(const std::string& handle, unsigned replica, void* begin, void* end);
  template <typename T>
  void writeTensor(const std::string& handle, ArrayRef<T> values) {
    writeTensor(handle, values.data(), values.data() + values.size());
  }
  // The form of older Poplar: the memory at `begin` has as many bytes as the tensor.
  void writeTensor(const std::string& handle, const void* begin);
  void readTensor(const std::string& handle, void* begin);
  // The same for a QUARTER tensor together with its metadata. Metadata that is a constant cannot be written.
  void writeTensor(const std::string& handle, const QuarterMetadata& metadata, const void* begin,
                   const void* end);
  void readTensor(const std::string& handle, QuarterMetadata& metadata, void* begin, void* end);

  // Copies one row of a remote buffer. Throws stream_connection_error for a row, a replica or a buffer that
  // there is not, and for a null pointer.
  void copyToRemoteBuffer(const void* from, const std::string& handle, std::uint64_t repeatIndex,
                          unsigned replica = 0);
  void copyFromRemoteBuffer(const std::string& handle, void* to, std::uint64_t repeatIndex,
                            unsigned replica = 0);

  // Where PrintTensor prints; std::cerr unless set.
  void setPrintTensorStream(std::ostream& stream);
  // Where the text of printf in codelets goes; the process's stdout unless set, and for vertices that run
  // isolated.
  void setPrintStream(std::ostream& stream);

  // The profile of the program and of the runs since the engine was made or resetExecutionProfile was called;
  // at most 100 runs. Cycles are those that the model computes: nothing is measured. `reportExecution` false
  // leaves out the runs.
  pva::Report getReport(bool reportExecution = true) const;
  // The same as trees that serializeToJSON writes, in the form of older Poplar. Of the program: "target",
  // "graph" (numbers of vertices, edges, variables, compute sets), "memory" (bytes by tile and by category),
  // "vertexTypes" and "computeSets". Of the runs: "simulation" with "cycles" and "steps", which have a "type"
  // ("OnTileExecute" for computation), a "name" and "cycles".
  ProfileValue getGraphProfile() const;
  ProfileValue getExecutionProfile() const;
  // Prints the profile. Option "showExecutionSteps": "true" prints the steps of the runs; default "false".
  void printProfileSummary(std::ostream& stream, const OptionFlags& options = {}) const;
  void resetExecutionProfile();
  void disableExecutionProfiling();
  void enableExecutionProfiling();

  static TimerTimePoint getTimeStamp() { return std::chrono::steady_clock::now(); }
  // The time of the host between two points, as text.
  static std::string reportTiming(const TimerTimePoint& start, const TimerTimePoint& end);

  const Target& getTarget() const;
  // The file can be read with Executable::deserialize.
  void serializeExecutable(const std::string& path) const;

 private:
  friend void ipu_model::SetReplica(Engine& engine, const ipu_model::Replica& replica);
  friend void ipu_model::SetCancellation(Engine& engine, const std::atomic<bool>* cancelled,
                                         std::function<void()> poll);
  friend std::uint64_t ipu_model::LastRunCycles(const Engine& engine);
  friend std::vector<ipu_model::LoopRun> ipu_model::LastRunLoops(const Engine& engine);
  friend void ipu_model::ConnectRemoteBuffer(Engine& engine, const std::string& handle, void* host);
  friend ipu_model::RemoteTraffic ipu_model::RemoteTrafficOf(Engine& engine);
  friend void ipu_model::RunExpansions(Engine& engine, const hlo::Expansions& library);
  friend ipu_model::ExpandedKinds ipu_model::KindsRunBy(const Engine& engine);

  static constexpr char kClass[] = "Engine";
  ipu_model::Owned<std::unique_ptr<ipu_model::EngineState>, kClass> state_;
};

// Prints target, graph and memory of a profile that an option autoReport saved, as of a program that does not
// fit (graph_memory_allocation_error::profilePath). The options of Engine::printProfileSummary have no
// effect.
void printGraphSummary(std::ostream& stream, const std::string& profilePath, const OptionFlags& options = {});
// Prints the totals of what Engine::getGraphProfile and getExecutionProfile return. The options are those of
// Engine::printProfileSummary. Throws poplar_error for any other trees.
void printProfileSummary(std::ostream& stream, const ProfileValue& graphProfile,
                         const ProfileValue& executionProfile, const OptionFlags& options = {});

}  // namespace poplar

#endif  // POPLAR_ENGINE_HPP
