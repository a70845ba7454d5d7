// poplar::Engine, on top of the fast engine and the tile engine.
#include "poplar/Engine.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "codelets/vertex_guard.h"
#include "engine/compiled_program.h"
#include "engine/fast_engine.h"
#include "engine/tile_engine.h"
#include "hlo/Expansion.hpp"
#include "ipu_model/Log.hpp"
#include "ipu_model/Model.hpp"
#include "ipu_model/Timeline.hpp"
#include "poplar/exceptions.hpp"

namespace poplar {

Engine::Engine(const Executable& executable, const OptionFlags& options) : executable_(executable) {
  bool tile = false, stream_memory_stays = false;
  for (const auto& [name, value] : options) {
    if (name == "execution" && (value == "fast" || value == "tile")) {
      tile = value == "tile";
    } else if (name == "streamMemoryStays" && (value == "true" || value == "false")) {
      stream_memory_stays = value == "true";
    } else if (name == "vertexTimeLimit") {
      char* end = nullptr;
      vertex_seconds_ = std::strtod(value.c_str(), &end);
      if (value.empty() || *end != '\0' || !(vertex_seconds_ > 0 && vertex_seconds_ <= 1e6)) {
        throw invalid_option("Engine: the option 'vertexTimeLimit' = '" + value +
                             "' is not a number of seconds between 0 and 1000000");
      }
    } else {
      throw invalid_option("Engine: the option '" + name + "' = '" + value +
                           "' is not known; possible: execution = fast, tile; streamMemoryStays = true, "
                           "false; vertexTimeLimit = seconds");
    }
  }
  if (tile) {
    tile_ = std::make_unique<ipu_model::TileEngine>(executable_.program());
  } else {
    fast_ = std::make_unique<ipu_model::FastEngine>(executable_.program(), stream_memory_stays);
  }
}

Engine::Engine(const Graph& graph, const program::Program& program, const OptionFlags& options)
    : Engine(compileGraph(graph, {program}), options) {}

Engine::Engine(const Graph& graph, const std::vector<program::Program>& programs, const OptionFlags& options)
    : Engine(compileGraph(graph, programs), options) {}

Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;
Engine::~Engine() = default;

void Engine::load(const Device& device) {
  if (device.getTarget() != executable_.program()->target) {
    const Target &have = device.getTarget(), &want = executable_.program()->target;
    throw poplar_error("Engine::load: the executable is for " + want.getTargetArchString() + " with " +
                       std::to_string(want.getNumTiles()) + " tiles, the device is " +
                       have.getTargetArchString() + " with " + std::to_string(have.getNumTiles()) +
                       ": compile for this device");
  }
  load();
}

void Engine::load() {
  if (fast_) {
    fast_->Load();
  } else {
    tile_->Load();
  }
  loaded_ = true;
  for (const ipu_model::HostHandle& handle : executable_.program()->host_handles) {
    if (!handle.initial.empty())
      writeTensor(handle.name, handle.initial.data(), handle.initial.data() + handle.initial.size());
  }
  if (!ipu_model::IsLogged(ipu_model::LogModule::kEngine, ipu_model::LogLevel::kInfo)) return;
  const ipu_model::CompiledProgram& program = *executable_.program();
  ipu_model::Log(ipu_model::LogModule::kEngine, ipu_model::LogLevel::kInfo,
                 "loads a program on " + program.target.getTargetArchString() + ": " +
                     std::to_string(program.report.total_bytes) + " bytes on " +
                     std::to_string(program.target.getNumTiles()) + " tiles, " +
                     std::to_string(program.report.max_tile_bytes) + " on tile " +
                     std::to_string(program.report.max_tile));
}

void Engine::run(unsigned program) {
  if (!loaded_) throw poplar_error("Engine::run: the engine is not on a device: call load before run");
  // Those of host handles are not the user's.
  const std::size_t programs =
      executable_.program()->programs.size() - executable_.program()->host_handles.size();
  if (program >= programs) {
    throw poplar_error("Engine::run: there is no program " + std::to_string(program) +
                       "; the executable has " + std::to_string(programs));
  }
  runNumbered(program);
}

void Engine::runNumbered(unsigned program) {
  const ipu_model::VertexTimeLimit limit(vertex_seconds_);
  if (fast_) {
    fast_->Run(program);
  } else {
    tile_->Run(program);
  }
  if (!ipu_model::IsLogged(ipu_model::LogModule::kEngine, ipu_model::LogLevel::kTrace)) return;
  const std::uint64_t cycles = ipu_model::LastRunCycles(*this);
  ipu_model::Log(ipu_model::LogModule::kEngine, ipu_model::LogLevel::kTrace,
                 "ran program " + std::to_string(program) +
                     (cycles > 0 ? ": " + std::to_string(cycles) + " cycles" : ""));
}

void Engine::transfer(const char* function, const std::string& handle, bool write, void* begin, void* end) {
  const ipu_model::CompiledProgram& program = *executable_.program();
  const auto found = std::find_if(program.host_handles.begin(), program.host_handles.end(),
                                  [&](const auto& h) { return h.name == handle && h.write == write; });
  if (found == program.host_handles.end()) {
    throw stream_connection_error(
        std::string(function) + ": there is no handle '" + handle +
        "'; make one with Graph::" + (write ? "createHostWrite" : "createHostRead"));
  }
  const ipu_model::Stream& stream = program.streams[found->stream];
  const auto want = stream.num_elements * static_cast<std::int64_t>(ipu_model::SizeOf(stream.type));
  const std::ptrdiff_t have = static_cast<unsigned char*>(end) - static_cast<unsigned char*>(begin);
  if (have != want) {
    throw stream_connection_error(std::string(function) + ": the tensor of '" + handle + "' has " +
                                  std::to_string(want) + " bytes, the host memory " + std::to_string(have));
  }
  if (!loaded_)
    throw poplar_error(std::string(function) + ": the engine is not on a device: call load before");
  connectStream(found->stream, begin);
  runNumbered(found->program);
}

void Engine::writeTensor(const std::string& handle, const void* begin, const void* end) {
  // A stream to the device only reads.
  transfer("Engine::writeTensor", handle, true, const_cast<void*>(begin), const_cast<void*>(end));
}

void Engine::readTensor(const std::string& handle, void* begin, void* end) {
  transfer("Engine::readTensor", handle, false, begin, end);
}

void Engine::loadAndRun(const Device& device, unsigned program) {
  load(device);
  run(program);
}

void Engine::connectStream(const std::string& handle, void* begin) {
  connectStream(streamIndex(handle), begin);
}

void Engine::connectStream(StreamIndex stream, void* begin) {
  const auto& streams = executable_.program()->streams;
  if (stream >= streams.size()) {
    throw stream_connection_error("Engine::connectStream: there is no stream " + std::to_string(stream) +
                                  "; the executable has " + std::to_string(streams.size()));
  }
  if (fast_) {
    fast_->ConnectStream(stream, begin);
  } else {
    const std::size_t bytes =
        static_cast<std::size_t>(streams[stream].num_elements) * ipu_model::SizeOf(streams[stream].type);
    tile_->ConnectStream(stream, begin, static_cast<unsigned char*>(begin) + bytes);
  }
}

void Engine::connectStream(const std::string& handle, void* begin, void* end) {
  const StreamIndex stream = streamIndex(handle);
  if (fast_) {
    fast_->ConnectStream(stream, begin, end);
  } else {
    tile_->ConnectStream(stream, begin, end);
  }
}

Engine::StreamIndex Engine::streamIndex(const std::string& handle) const {
  StreamIndex index = 0;
  executable_.program()->StreamNamed(handle, &index);
  return index;
}

std::vector<std::string> Engine::listStreams() const {
  std::vector<std::string> names;
  for (const auto& s : executable_.program()->streams)
    names.push_back(s.name + (s.host_to_device ? "+" : "-"));
  return names;
}

void Engine::connectHostFunction(const std::string& handle, unsigned replica, HostFunctionCallback callback) {
  if (replica != 0) {
    throw stream_connection_error("Engine::connectHostFunction: there is no replica " +
                                  std::to_string(replica));
  }
  if (fast_) {
    fast_->ConnectHostFunction(handle, std::move(callback));
  } else {
    tile_->ConnectHostFunction(handle, std::move(callback));
  }
}

void Engine::setPrintTensorStream(std::ostream& stream) {
  if (fast_) {
    fast_->SetPrintTensorStream(stream);
  } else {
    tile_->SetPrintTensorStream(stream);
  }
}

}  // namespace poplar

namespace ipu_model {

void SetReplica(poplar::Engine& engine, const Replica& replica) {
  const unsigned factor = engine.executable_.program()->replication_factor;
  if (replica.group != nullptr && replica.group->size() != factor) {
    throw poplar::poplar_error("SetReplica: the graph has " + std::to_string(factor) +
                               " replicas, the launch " + std::to_string(replica.group->size()));
  }
  if (engine.fast_) {
    engine.fast_->SetReplica(replica);
  } else {
    engine.tile_->SetReplica(replica);
  }
}

void SetCancellation(poplar::Engine& engine, const std::atomic<bool>* cancelled, std::function<void()> poll) {
  if (engine.fast_) {
    engine.fast_->SetCancellation({cancelled, std::move(poll)});
  } else {
    engine.tile_->SetCancellation({cancelled, std::move(poll)});
  }
}

void RunExpansions(poplar::Engine& engine, const hlo::Expansions& library) {
  if (engine.tile_ == nullptr)
    throw poplar::poplar_error("RunExpansions: only an engine with execution = tile runs vertices");
  engine.tile_->RunExpansions(library);
}

ExpandedKinds KindsRunBy(const poplar::Engine& engine) {
  return engine.tile_ == nullptr ? ExpandedKinds{} : engine.tile_->kinds();
}

std::vector<LoopRun> LastRunLoops(const poplar::Engine& engine) {
  return engine.fast_ ? engine.fast_->last_run_loops() : engine.tile_->last_run_loops();
}

std::uint64_t LastRunCycles(const poplar::Engine& engine) {
  return engine.fast_ ? engine.fast_->last_run_cycles() : engine.tile_->last_run_cycles();
}

}  // namespace ipu_model
