// poplar::Engine, on top of the fast engine and the tile engine.
#include "poplar/Engine.hpp"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <utility>

#include "core/graph/graph_impl.h"
#include "engine/engine_state.h"
#include "hlo/Expansion.hpp"
#include "ipu_model/Log.hpp"
#include "ipu_model/Model.hpp"
#include "ipu_model/Replicas.hpp"
#include "ipu_model/Timeline.hpp"
#include "poplar/exceptions.hpp"

namespace poplar {

using ipu_model::EngineState;

Engine::Engine(const Executable& executable, const OptionFlags& options)
    : state_(std::make_unique<EngineState>(executable, options)) {}

Engine::Engine(const Graph& graph, const program::Program& program, const OptionFlags& options,
               const ProgressFunc& progress, const DebugContext& debugContext)
    : Engine(graph, std::vector<program::Program>{program}, options, progress, debugContext) {}

Engine::Engine(const Graph& graph, const std::vector<program::Program>& programs, const OptionFlags& options,
               const ProgressFunc& progress, const DebugContext& debugContext)
    : Engine(ipu_model::CompileForEngine(graph, programs, options, progress, debugContext), options) {}

Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;
Engine::~Engine() = default;

namespace {

// Whether the target `device` is divided into `replicas` targets `replica`.
bool Divide(unsigned replicas, const Target& replica, const Target& device) {
  try {
    return ipu_model::TargetOfReplica(device, replicas) == replica;
  } catch (const poplar_error&) {
    return false;
  }
}

}  // namespace

void Engine::prepare(const Device& device) {
  const Target &have = device.getTarget(), &want = getTarget();
  const unsigned replicas = state_->one_replica() ? 1 : state_->program().replication_factor;
  if (Divide(replicas, want, have)) return;
  throw poplar_error("Engine::load: the executable is for " + want.getTargetArchString() + " with " +
                     (replicas > 1 ? std::to_string(replicas) + " times " : "") +
                     std::to_string(want.getNumTiles()) + " tiles, the device is " +
                     have.getTargetArchString() + " with " + std::to_string(have.getNumTiles()) +
                     ": compile for this device");
}

void Engine::load(const Device& device) {
  prepare(device);
  load();
}

void Engine::load() {
  state_->Load();
  for (const ipu_model::HostHandle& handle : state_->program().host_handles) {
    if (!handle.initial.empty())
      writeTensor(handle.name, handle.initial.data(), handle.initial.data() + handle.initial.size());
  }
  if (!ipu_model::IsLogged(ipu_model::LogModule::kEngine, ipu_model::LogLevel::kInfo)) return;
  const ipu_model::CompiledProgram& program = state_->program();
  ipu_model::Log(ipu_model::LogModule::kEngine, ipu_model::LogLevel::kInfo,
                 "loads a program on " + program.target.getTargetArchString() + ": " +
                     std::to_string(program.report.total_bytes) + " bytes on " +
                     std::to_string(program.target.getNumTiles()) + " tiles, " +
                     std::to_string(program.report.max_tile_bytes) + " on tile " +
                     std::to_string(program.report.max_tile));
}

void Engine::run(unsigned program, const std::string& debugName) {
  if (!state_->loaded())
    throw poplar_error("Engine::run: the engine is not on a device: call load before run");
  // The last programs are those of host handles, which are not the user's.
  const std::size_t programs = state_->program().programs.size() - state_->program().host_handles.size();
  if (program >= programs) {
    throw poplar_error("Engine::run: there is no program " + std::to_string(program) +
                       "; the executable has " + std::to_string(programs));
  }
  state_->Run(program);
  state_->Record(program, debugName);
  if (!ipu_model::IsLogged(ipu_model::LogModule::kEngine, ipu_model::LogLevel::kTrace)) return;
  const std::uint64_t cycles = ipu_model::LastRunCycles(*this);
  ipu_model::Log(ipu_model::LogModule::kEngine, ipu_model::LogLevel::kTrace,
                 "ran program " + std::to_string(program) +
                     (cycles > 0 ? ": " + std::to_string(cycles) + " cycles" : ""));
}

void Engine::loadAndRun(const Device& device, unsigned program, const std::string& debugName) {
  load(device);
  run(program, debugName);
}

namespace {

// The bytes of memory that is given without its end.
const unsigned char* EndOf(const EngineState& state, const std::string& handle, bool write,
                           const void* begin) {
  const ipu_model::CompiledProgram& program = state.program();
  for (const ipu_model::HostHandle& h : program.host_handles) {
    if (h.name != handle || h.write != write || begin == nullptr) continue;
    const ipu_model::Stream& stream = program.streams[h.stream];
    return static_cast<const unsigned char*>(begin) +
           static_cast<std::size_t>(stream.num_elements) * ipu_model::SizeOf(stream.type);
  }
  return static_cast<const unsigned char*>(begin);  // of an unknown handle, which is refused
}

// The handle of a tensor that the host writes or reads, whose bytes are [begin, end).
const ipu_model::HostHandle& FindHandle(const EngineState& state, const char* function,
                                        const std::string& handle, bool write, const void* begin,
                                        const void* end) {
  const ipu_model::CompiledProgram& program = state.program();
  const auto found = std::find_if(program.host_handles.begin(), program.host_handles.end(),
                                  [&](const auto& h) { return h.name == handle && h.write == write; });
  if (found == program.host_handles.end()) {
    throw stream_connection_error(
        std::string(function) + ": there is no handle '" + handle +
        "'; make one with Graph::" + (write ? "createHostWrite" : "createHostRead"));
  }
  const ipu_model::Stream& stream = program.streams[found->stream];
  const auto want = stream.num_elements * static_cast<std::int64_t>(ipu_model::SizeOf(stream.type));
  if (begin == nullptr && want > 0) {
    throw stream_connection_error(std::string(function) + ": the memory of '" + handle +
                                  "' is a null pointer");
  }
  const std::ptrdiff_t have =
      end == begin ? 0 : static_cast<const unsigned char*>(end) - static_cast<const unsigned char*>(begin);
  // Memory may be longer than the tensor: a test of PopLibs writes the first element of an array.
  if (have < want) {
    throw stream_connection_error(std::string(function) + ": the tensor of '" + handle + "' has " +
                                  std::to_string(want) + " bytes, the host memory " + std::to_string(have));
  }
  if (!state.loaded())
    throw poplar_error(std::string(function) + ": the engine is not on a device: call load before");
  return *found;
}

// The program of a handle communicates with nobody, so that one replica can run it.
void RunHandle(EngineState* state, const char* function, const ipu_model::HostHandle& handle,
               unsigned replica, void* begin) {
  const ipu_model::Stream& stream = state->program().streams[handle.stream];
  const std::size_t bytes = static_cast<std::size_t>(stream.num_elements) * ipu_model::SizeOf(stream.type);
  state->Connect(handle.stream, replica, begin, static_cast<unsigned char*>(begin) + bytes);
  state->For(function, replica,
             [&](unsigned, auto& one) { one.With([&](auto& engine) { engine.Run(handle.program); }); });
}

}  // namespace

void Engine::writeTensor(const std::string& handle, const void* begin, const void* end) {
  writeTensor(handle, EngineState::kAll, begin, end);
}

void Engine::writeTensor(const std::string& handle, unsigned replica, const void* begin, const void* end) {
  const auto& found = FindHandle(*state_, "Engine::writeTensor", handle, true, begin, end);
  // A stream to the device only reads.
  RunHandle(state_.get(), "Engine::writeTensor", found, replica, const_cast<void*>(begin));
}

void Engine::readTensor(const std::string& handle, unsigned replica, void* begin, void* end) {
  const auto& found = FindHandle(*state_, "Engine::readTensor", handle, false, begin, end);
  RunHandle(state_.get(), "Engine::readTensor", found, replica, begin);
}

void Engine::writeTensor(const std::string& handle, const void* begin) {
  writeTensor(handle, begin, EndOf(*state_, handle, true, begin));
}

void Engine::readTensor(const std::string& handle, void* begin) {
  readTensor(handle, begin, const_cast<unsigned char*>(EndOf(*state_, handle, false, begin)));
}

void Engine::writeTensor(const std::string& handle, const QuarterMetadata& metadata, const void* begin,
                         const void* end) {
  const std::uint8_t byte = metadata.getBinary();
  writeTensor(ipu_model::MetadataHandle(handle), &byte, &byte + 1);
  writeTensor(handle, begin, end);
}

void Engine::readTensor(const std::string& handle, QuarterMetadata& metadata, void* begin, void* end) {
  std::uint8_t byte = 0;
  readTensor(ipu_model::MetadataHandle(handle), &byte, &byte + 1);
  metadata = QuarterMetadata::fromBinary(byte);
  readTensor(handle, begin, end);
}

void Engine::connectStream(const std::string& handle, void* begin) {
  connectStream(streamIndex(handle), begin);
}

void Engine::connectStream(StreamIndex stream, void* begin) {
  const auto& streams = state_->program().streams;
  if (stream >= streams.size()) {
    throw stream_connection_error("Engine::connectStream: there is no stream " + std::to_string(stream) +
                                  "; the executable has " + std::to_string(streams.size()));
  }
  state_->Connect(stream, begin);
}

void Engine::connectStream(const std::string& handle, void* begin, void* end) {
  state_->Connect(streamIndex(handle), EngineState::kAll, begin, end);
}

void Engine::connectStream(const std::string& handle, unsigned replica, void* begin, void* end) {
  state_->Connect(streamIndex(handle), replica, begin, end);
}

void Engine::connectStreamToCallback(const std::string& handle, StreamCallbackHandle callback) {
  connectStreamToCallback(handle, EngineState::kAll, std::move(callback));
}

void Engine::connectStreamToCallback(const std::string& handle, unsigned replica,
                                     StreamCallbackHandle callback) {
  state_->Connect(streamIndex(handle), replica, std::shared_ptr<StreamCallback>(callback.take()));
}

Engine::StreamIndex Engine::streamIndex(const std::string& handle) const {
  StreamIndex index = 0;
  state_->program().StreamNamed(handle, &index);
  return index;
}

std::vector<std::string> Engine::listStreams() const {
  std::vector<std::string> names;
  for (const auto& s : state_->program().streams) names.push_back(s.name + (s.host_to_device ? "+" : "-"));
  return names;
}

void Engine::connectHostFunction(const std::string& handle, unsigned replica, HostFunctionCallback callback) {
  if (callback == nullptr) {
    throw stream_connection_error("Engine::connectHostFunction: the callback of '" + handle +
                                  "' is an empty function");
  }
  state_->For("Engine::connectHostFunction", replica, [&](unsigned, auto& one) {
    one.With([&](auto& engine) { engine.ConnectHostFunction(handle, callback); });
  });
}

namespace {

// A row of a remote buffer of one replica.
unsigned char* RowOf(EngineState* state, const char* function, const std::string& handle, std::uint64_t row,
                     unsigned replica, std::size_t* bytes) {
  unsigned char* memory = nullptr;
  state->For(function, replica, [&](unsigned, auto& one) {
    auto& buffer = one.With([&](auto& engine) -> auto& { return engine.host_functions(); }).Remote(handle);
    if (row >= buffer.rows) {
      throw stream_connection_error(std::string(function) + ": the remote buffer '" + handle + "' has " +
                                    std::to_string(buffer.rows) + " rows, and no row " + std::to_string(row));
    }
    *bytes = buffer.row_bytes;
    memory = buffer.memory() + row * buffer.row_bytes;
  });
  return memory;
}

}  // namespace

namespace {
void CheckRow(const char* function, const void* memory) {
  if (memory == nullptr)
    throw stream_connection_error(std::string(function) + ": the memory of the row is a null pointer");
}
}  // namespace

void Engine::copyToRemoteBuffer(const void* from, const std::string& handle, std::uint64_t repeatIndex,
                                unsigned replica) {
  std::size_t bytes = 0;
  unsigned char* const row =
      RowOf(state_.get(), "Engine::copyToRemoteBuffer", handle, repeatIndex, replica, &bytes);
  if (bytes == 0) return;
  CheckRow("Engine::copyToRemoteBuffer", from);
  std::memcpy(row, from, bytes);
}

void Engine::copyFromRemoteBuffer(const std::string& handle, void* to, std::uint64_t repeatIndex,
                                  unsigned replica) {
  std::size_t bytes = 0;
  const unsigned char* const row =
      RowOf(state_.get(), "Engine::copyFromRemoteBuffer", handle, repeatIndex, replica, &bytes);
  if (bytes == 0) return;
  CheckRow("Engine::copyFromRemoteBuffer", to);
  std::memcpy(to, row, bytes);
}

void Engine::setPrintStream(std::ostream& stream) { state_->SetPrintStream(stream); }

void Engine::setPrintTensorStream(std::ostream& stream) {
  for (auto& replica : state_->replicas())
    replica.With([&](auto& engine) { engine.SetPrintTensorStream(stream); });
}

pva::Report Engine::getReport(bool reportExecution) const {
  return pva::Report(std::make_shared<const ipu_model::ProfileFile>(state_->Describe(reportExecution)));
}

namespace {

// Whether the steps of runs are printed; throws for an option that there is not.
bool ShowsSteps(const std::string& function, const OptionFlags& options) {
  bool show_steps = false;
  for (const auto& [name, value] : options) {
    const bool known = name == "showExecutionSteps" || name == "showVarStorage" ||
                       name == "showOptimizations" || name == "showPerIpuMemoryUsage" || name == "colours";
    if (!known || (value != "true" && value != "false")) {
      throw invalid_option(function + ": the option '" + name + "' = '" + value +
                           "' is not known; possible: showExecutionSteps, showVarStorage, showOptimizations, "
                           "showPerIpuMemoryUsage, colours = true, false");
    }
    if (name == "showExecutionSteps") show_steps = value == "true";
  }
  return show_steps;
}

}  // namespace

void Engine::printProfileSummary(std::ostream& stream, const OptionFlags& options) const {
  const bool show_steps = ShowsSteps("Engine::printProfileSummary", options);
  stream << ipu_model::ProfileSummary(state_->Describe(true), show_steps) << std::flush;
}

ProfileValue Engine::getGraphProfile() const { return ipu_model::GraphProfileOf(state_->Describe(false)); }
ProfileValue Engine::getExecutionProfile() const {
  return ipu_model::ExecutionProfileOf(state_->Describe(true));
}

void printProfileSummary(std::ostream& stream, const ProfileValue& graphProfile,
                         const ProfileValue& executionProfile, const OptionFlags& options) {
  const bool show_steps = ShowsSteps("printProfileSummary", options);
  stream << ipu_model::ProfileSummary(ipu_model::FileOfProfiles(graphProfile, executionProfile), show_steps)
         << std::flush;
}

void printGraphSummary(std::ostream& stream, const std::string& profilePath, const OptionFlags& options) {
  ShowsSteps("printGraphSummary", options);
  stream << ipu_model::GraphSummary(ipu_model::LoadProfileFile(profilePath, "printGraphSummary"))
         << std::flush;
}

void Engine::resetExecutionProfile() { state_->ResetRuns(); }
void Engine::disableExecutionProfiling() { state_->SetProfiling(false); }
void Engine::enableExecutionProfiling() { state_->SetProfiling(true); }

std::string Engine::reportTiming(const TimerTimePoint& start, const TimerTimePoint& end) {
  return std::to_string(std::chrono::duration<double>(end - start).count()) + " seconds";
}

const Target& Engine::getTarget() const { return state_->program().target; }

void Engine::serializeExecutable(const std::string& path) const {
  std::ofstream out(path, std::ios::binary);
  if (!out) throw poplar_error("Engine::serializeExecutable: cannot write '" + path + "'");
  state_->executable().serialize(out);
}

}  // namespace poplar

namespace ipu_model {

void SetReplica(poplar::Engine& engine, const Replica& replica) {
  const unsigned factor = engine.state_->program().replication_factor;
  if (replica.group != nullptr && replica.group->size() != factor) {
    throw poplar::poplar_error("SetReplica: the graph has " + std::to_string(factor) +
                               " replicas, the launch " + std::to_string(replica.group->size()));
  }
  engine.state_->SetReplica(replica);
}

void SetCancellation(poplar::Engine& engine, const std::atomic<bool>* cancelled, std::function<void()> poll) {
  for (auto& replica : engine.state_->replicas())
    replica.With([&](auto& one) { one.SetCancellation({cancelled, poll}); });
}

void ConnectRemoteBuffer(poplar::Engine& engine, const std::string& handle, void* host) {
  engine.state_->For("ConnectRemoteBuffer", 0, [&](unsigned, auto& replica) {
    replica.With([&](auto& one) { one.host_functions().Remote(handle).Connect(host); });
  });
}

RemoteTraffic RemoteTrafficOf(poplar::Engine& engine) {
  RemoteTraffic traffic;
  for (auto& replica : engine.state_->replicas()) {
    replica.With([&](auto& one) {
      for (const auto& buffer : one.host_functions().remote_buffers()) {
        traffic.bytes_read += buffer->bytes_read;
        traffic.bytes_written += buffer->bytes_written;
      }
    });
  }
  return traffic;
}

void RunExpansions(poplar::Engine& engine, const hlo::Expansions& library) {
  for (auto& replica : engine.state_->replicas()) {
    TileEngine* const tile = replica.tile();
    if (tile == nullptr)
      throw poplar::poplar_error("RunExpansions: only an engine with execution = tile runs vertices");
    tile->RunExpansions(library);
  }
}

ExpandedKinds KindsRunBy(const poplar::Engine& engine) {
  const TileEngine* const tile = engine.state_->first().tile();
  return tile == nullptr ? ExpandedKinds{} : tile->kinds();
}

std::vector<LoopRun> LastRunLoops(const poplar::Engine& engine) {
  return engine.state_->first().With([](const auto& one) { return one.last_run_loops(); });
}

std::uint64_t LastRunCycles(const poplar::Engine& engine) {
  std::uint64_t cycles = 0;
  for (auto& replica : engine.state_->replicas())
    cycles = std::max(cycles, replica.With([](const auto& one) { return one.last_run_cycles(); }));
  return cycles;
}

}  // namespace ipu_model
