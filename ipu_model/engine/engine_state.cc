#include "engine/engine_state.h"

#include <cerrno>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <thread>

#include "codelets/codelet_output.h"
#include "codelets/vertex_guard.h"
#include "ipu_model/Model.hpp"

namespace ipu_model {
namespace {

constexpr std::size_t kMostRuns = 100;  // in a profile

void WriteFile(const std::string& path, const std::string& data) {
  std::ofstream out(path, std::ios::binary);
  out.write(data.data(), static_cast<std::streamsize>(data.size()));
  out.close();
  if (!out) throw poplar::poplar_error("Engine: cannot write '" + path + "': " + std::strerror(errno));
}

// Throws the first error that is not about another replica's.
void Rethrow(const std::vector<std::exception_ptr>& errors) {
  std::exception_ptr missing;
  for (const std::exception_ptr& error : errors) {
    if (error == nullptr) continue;
    try {
      std::rethrow_exception(error);
    } catch (const ReplicaMissing&) {
      missing = error;
    }
  }
  if (missing != nullptr) std::rethrow_exception(missing);
}

}  // namespace

ReplicaEngine::ReplicaEngine(const std::shared_ptr<const CompiledProgram>& program,
                             const EngineOptions& options) {
  if (options.tile) {
    tile_ = std::make_unique<TileEngine>(program);
  } else {
    // A callback is called at the place of its transfer in the program.
    fast_ = std::make_unique<FastEngine>(program, options.stream_memory_stays,
                                         /*streams_in_place=*/options.stream_memory_stays);
  }
}

EngineState::EngineState(poplar::Executable executable, const poplar::OptionFlags& flags)
    : executable_(std::move(executable)), options_(ReadEngineOptions(flags)) {
  const unsigned replicas = options_.one_replica ? 1 : program().replication_factor;
  for (unsigned r = 0; r < replicas; ++r) replicas_.emplace_back(executable_.program(), options_);
  // A runtime has other means to end a run.
  for (ReplicaEngine& replica : replicas_)
    replica.With(
        [&](auto& engine) { engine.SetLoopLimit(options_.one_replica ? 0 : options_.vertex_seconds); });
  if (options_.graph_profile || options_.execution_profile) SaveProfile();
}

void EngineState::Load() {
  if (const std::string& lack = program().report.out_of_memory; !lack.empty()) {
    poplar::graph_memory_allocation_error error(
        "Engine::load: the program was compiled with debug.allowOutOfMemory, for its profile only: " + lack);
    error.graphProfile = GraphProfileOf(Describe(false));
    throw error;
  }
  for (ReplicaEngine& replica : replicas_) replica.With([](auto& engine) { engine.Load(); });
  loaded_ = true;
}

void EngineState::SetReplica(const Replica& replica) {
  replicas_.erase(replicas_.begin() + 1, replicas_.end());
  replicas_[0].With([&](auto& engine) { engine.SetReplica(replica); });
}

void EngineState::Run(unsigned number) {
  if (replicas_.size() > 1) return RunTogether(number);
  const VertexTimeLimit limit(options_.vertex_seconds);
  const CodeletOutput output(print_stream_);
  replicas_[0].With([&](auto& engine) { engine.Run(number); });
}

void EngineState::RunTogether(unsigned number) {
  ReplicaGroup group(static_cast<unsigned>(replicas_.size()));
  std::vector<std::exception_ptr> errors(replicas_.size());
  std::vector<std::thread> threads;
  for (unsigned r = 0; r < replicas_.size(); ++r) {
    threads.emplace_back([&, r] {
      const VertexTimeLimit limit(options_.vertex_seconds);
      const CodeletOutput output(print_stream_);
      try {
        replicas_[r].With([&](auto& engine) {
          engine.SetReplica({&group, r});
          engine.Run(number);
        });
      } catch (...) {
        errors[r] = std::current_exception();
      }
      group.Leave(r);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (ReplicaEngine& replica : replicas_) replica.With([](auto& engine) { engine.SetReplica({}); });
  Rethrow(errors);
}

namespace {
void CheckMemory(const char* function, const Stream& stream, const void* memory) {
  if (memory != nullptr || stream.num_elements == 0) return;
  throw poplar::stream_connection_error(std::string(function) + ": the memory of the stream '" + stream.name +
                                        "' is a null pointer");
}
}  // namespace

void EngineState::Connect(std::uint32_t stream, void* begin) {
  const Stream& described = program().streams.at(stream);
  CheckMemory("Engine::connectStream", described, begin);
  const std::size_t bytes = static_cast<std::size_t>(described.num_elements) * SizeOf(described.type);
  auto* memory = static_cast<unsigned char*>(begin);
  for (ReplicaEngine& replica : replicas_) {
    replica.With([&](auto& engine) { engine.ConnectStream(stream, memory); });
    if (!described.broadcast) memory += bytes;
  }
  if (ports_.empty()) return;
  for (unsigned r = 0; r < replicas_.size(); ++r) ports_.erase({r, stream});
}

void EngineState::CheckBroadcast(const char* function, std::uint32_t stream, unsigned replica) const {
  const Stream& described = program().streams.at(stream);
  if (!described.broadcast || replica == kAll || replica == 0) return;
  throw poplar::stream_connection_error(
      std::string(function) + ": the stream '" + described.name +
      "' is one for all replicas (ReplicatedStreamMode::BROADCAST); replica " + std::to_string(replica) +
      " has none of its own");
}

void EngineState::Connect(std::uint32_t stream, unsigned replica, void* begin, void* end) {
  CheckBroadcast("Engine::connectStream", stream, replica);
  CheckMemory("Engine::connectStream", program().streams.at(stream), begin);
  if (program().streams.at(stream).broadcast) replica = kAll;
  For("Engine::connectStream", replica, [&](unsigned r, ReplicaEngine& one) {
    one.With([&](auto& engine) { engine.ConnectStream(stream, begin, end); });
    ports_.erase({r, stream});
  });
}

void EngineState::Connect(std::uint32_t stream, unsigned replica,
                          std::shared_ptr<poplar::StreamCallback> callback) {
  if (callback == nullptr)
    throw poplar::stream_connection_error("Engine::connectStreamToCallback: the callback is null");
  if (options_.stream_memory_stays) {
    throw poplar::stream_connection_error(
        "Engine::connectStreamToCallback: the option streamMemoryStays promises that there are no "
        "callbacks");
  }
  CheckBroadcast("Engine::connectStreamToCallback", stream, replica);
  const Stream& described = program().streams.at(stream);
  const std::size_t bytes = static_cast<std::size_t>(described.num_elements) * SizeOf(described.type);
  std::shared_ptr<BroadcastSource> source;
  if (described.broadcast && replicas_.size() > 1) {
    source = std::make_shared<BroadcastSource>(callback, bytes, replicas_.size());
    replica = kAll;
  }
  For("Engine::connectStreamToCallback", replica, [&](unsigned r, ReplicaEngine& one) {
    auto port = source != nullptr ? std::make_unique<StreamPort>(source, r, bytes)
                                  : std::make_unique<StreamPort>(callback, bytes, options_.prefetch);
    one.With([&](auto& engine) { engine.ConnectPort(stream, port.get()); });
    ports_[{r, stream}] = std::move(port);
  });
}

void EngineState::AddRun(unsigned number, const std::string& name) {
  if (runs_.size() >= kMostRuns) return;
  std::vector<LoopRun> loops;
  if (number == 0) loops = first().With([](const auto& engine) { return engine.last_run_loops(); });
  runs_.push_back({number, name, std::move(loops)});
  if (options_.execution_profile && runs_.size() <= options_.profiled_runs) SaveProfile();
}

ProfileFile EngineState::Describe(bool with_runs) const {
  ProfileFile file = DescribeProgram(program());
  if (!with_runs) return file;
  for (const RunRecord& run : runs_)
    file.runs.push_back(DescribeRun(program(), run.number, run.name, run.loops, options_.blocks));
  return file;
}

void EngineState::SaveProfile() const {
  std::error_code error;
  std::filesystem::create_directories(options_.report_folder, error);
  WriteFile(options_.report_folder + "/profile.pop", WriteProfileFile(Describe(options_.execution_profile)));
}

poplar::Executable CompileForEngine(const poplar::Graph& graph,
                                    const std::vector<poplar::program::Program>& programs,
                                    const poplar::OptionFlags& flags, const poplar::ProgressFunc& progress,
                                    const poplar::DebugContext& debug) {
  const EngineOptions options = ReadEngineOptions(flags);
  try {
    return poplar::compileGraph(graph, programs, flags, progress, debug);
  } catch (const OutOfMemory& failure) {
    if (!options.graph_profile) throw;
    const std::string path = options.report_folder + "/profile.pop";
    std::error_code error;
    std::filesystem::create_directories(options.report_folder, error);
    ProfileFile file = DescribeProgram(*failure.program);
    file.report = failure.report;
    WriteFile(path, WriteProfileFile(file));
    OutOfMemory saved(std::string(failure.what()) + ". Profile saved to: " + path, failure.report,
                      failure.program);
    saved.graphProfile = failure.graphProfile;
    saved.profilePath = path;
    throw saved;
  }
}

}  // namespace ipu_model
