// Compiles graphs and runs them. Source: Graphcore's Poplar and PopLibs API reference, class poplar::Engine.
#ifndef POPLAR_ENGINE_HPP
#define POPLAR_ENGINE_HPP

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "poplar/Device.hpp"
#include "poplar/Executable.hpp"
#include "poplar/Graph.hpp"
#include "poplar/OptionFlags.hpp"
#include "poplar/Program.hpp"

namespace poplar {
class Engine;
}

namespace hlo {
class Expansions;  // hlo/Expansion.hpp
}

namespace ipu_model {
class FastEngine;  // engine/fast_engine.h
class TileEngine;  // engine/tile_engine.h
struct LoopRun;
struct Replica;
// ipu_model/Model.hpp, ipu_model/Timeline.hpp
void SetReplica(poplar::Engine& engine, const Replica& replica);
void SetCancellation(poplar::Engine& engine, const std::atomic<bool>* cancelled, std::function<void()> poll);
std::uint64_t LastRunCycles(const poplar::Engine& engine);
std::vector<LoopRun> LastRunLoops(const poplar::Engine& engine);
struct ExpandedKinds;  // hlo/Expansion.hpp
void RunExpansions(poplar::Engine& engine, const hlo::Expansions& library);
ExpandedKinds KindsRunBy(const poplar::Engine& engine);
}  // namespace ipu_model

namespace poplar {

// Programs are numbered as given; number 0 is the main program, which reports describe. Throws
// invalid_tile_mapping, control_program_error, or graph_memory_allocation_error when a tile's memory is too
// small for the programs. The graph's programs must not be changed afterwards.
Executable compileGraph(const Graph& graph, const std::vector<program::Program>& programs,
                        const DebugContext& debugContext = {});

// Runs the programs of one executable. Not thread safe. Option "execution": "fast" (default: one host kernel
// per operation) or "tile" (every vertex by itself, on the data that the exchange delivered, with checks of
// what codelets write). Option "vertexTimeLimit": the seconds of processor time after which a vertex of a
// codelet is ended with runtime_error, default "10". Option "streamMemoryStays": "true" promises that the
// memory of an input stream neither moves nor changes as long as any program uses the data read from it, so
// that the fast engine need not copy it; default "false".
class Engine {
 public:
  using StreamIndex = std::uint32_t;

  explicit Engine(const Executable& executable, const OptionFlags& options = {});
  Engine(const Graph& graph, const program::Program& program, const OptionFlags& options = {});
  Engine(const Graph& graph, const std::vector<program::Program>& programs, const OptionFlags& options = {});
  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;
  ~Engine();

  // Zeroes the variables and makes the engine ready to run: no state survives a load.
  void load(const Device& device);
  void load();

  // Throws application_runtime_error with the program's message when the program aborts,
  // stream_connection_error when a stream that it uses has no host memory.
  void run(unsigned program = 0);
  void loadAndRun(const Device& device, unsigned program = 0);

  // Every transfer reads or writes the memory at `begin`, one stream length of elements; the bytes of an
  // input must not change and those of an output must not be read while a program runs. Memory of inputs and
  // outputs must not overlap.
  void connectStream(const std::string& handle, void* begin);
  // Successive transfers, also over runs, move through [begin, end) and then start over.
  void connectStream(const std::string& handle, void* begin, void* end);
  void connectStream(StreamIndex stream, void* begin);
  StreamIndex streamIndex(const std::string& handle) const;
  // The streams' names, each followed by '+' (host to device) or '-' (device to host).
  std::vector<std::string> listStreams() const;

  // Called on the thread that runs the program, with dense row-major operands that are valid during the call.
  // An exception that it throws ends the run. `replica` is 0.
  using HostFunctionCallback =
      std::function<void(const std::vector<const void*>& inputs, const std::vector<void*>& outputs)>;
  void connectHostFunction(const std::string& handle, unsigned replica, HostFunctionCallback callback);

  // Copies [begin, end), in row-major order, to the tensor of Graph::createHostWrite, or from that of
  // createHostRead. Throws stream_connection_error for an unknown handle and another number of bytes.
  void writeTensor(const std::string& handle, const void* begin, const void* end);
  void readTensor(const std::string& handle, void* begin, void* end);

  void setPrintTensorStream(std::ostream& stream);

 private:
  void runNumbered(unsigned program);
  void transfer(const char* function, const std::string& handle, bool write, void* begin, void* end);
  friend void ipu_model::SetReplica(Engine& engine, const ipu_model::Replica& replica);
  friend void ipu_model::SetCancellation(Engine& engine, const std::atomic<bool>* cancelled,
                                         std::function<void()> poll);
  friend std::uint64_t ipu_model::LastRunCycles(const Engine& engine);
  friend std::vector<ipu_model::LoopRun> ipu_model::LastRunLoops(const Engine& engine);
  friend void ipu_model::RunExpansions(Engine& engine, const hlo::Expansions& library);
  friend ipu_model::ExpandedKinds ipu_model::KindsRunBy(const Engine& engine);

  Executable executable_;
  std::unique_ptr<ipu_model::FastEngine> fast_;
  std::unique_ptr<ipu_model::TileEngine> tile_;
  bool loaded_ = false;
  double vertex_seconds_ = 10;
};

}  // namespace poplar

#endif  // POPLAR_ENGINE_HPP
