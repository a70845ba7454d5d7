// What poplar::Engine has: an engine for each replica, the callbacks of streams, and what it knows of its
// runs.
#ifndef IPU_MODEL_ENGINE_ENGINE_STATE_H_
#define IPU_MODEL_ENGINE_ENGINE_STATE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine_options.h"
#include "engine/fast/fast_engine.h"
#include "engine/program/compiled_program.h"
#include "engine/report/profile_file.h"
#include "engine/run/stream_port.h"
#include "engine/tile/tile_engine.h"
#include "poplar/Engine.hpp"
#include "poplar/Executable.hpp"
#include "poplar/OptionFlags.hpp"
#include "poplar/StreamCallback.hpp"
#include "poplar/exceptions.hpp"

namespace ipu_model {

// The engine of one replica: either of the two.
class ReplicaEngine {
 public:
  ReplicaEngine(const std::shared_ptr<const CompiledProgram>& program, const EngineOptions& options);

  template <typename F>
  decltype(auto) With(F&& f) {
    return fast_ ? f(*fast_) : f(*tile_);
  }
  template <typename F>
  decltype(auto) With(F&& f) const {
    return fast_ ? f(*fast_) : f(*tile_);
  }
  TileEngine* tile() const { return tile_.get(); }  // null for the fast engine

 private:
  std::unique_ptr<FastEngine> fast_;
  std::unique_ptr<TileEngine> tile_;
};

class EngineState {
 public:
  EngineState(poplar::Executable executable, const poplar::OptionFlags& flags);

  const CompiledProgram& program() const { return *executable_.program(); }
  // Whether it runs one replica of several: a runtime has an engine for each.
  bool one_replica() const { return options_.one_replica; }
  const poplar::Executable& executable() const { return executable_; }
  std::vector<ReplicaEngine>& replicas() { return replicas_; }
  const ReplicaEngine& first() const { return replicas_[0]; }
  bool loaded() const { return loaded_; }

  // Calls f(number, engine) for the replica, or for all of them for kAll.
  static constexpr unsigned kAll = ~0u;
  template <typename F>
  void For(const char* function, unsigned replica, F&& f) {
    if (replica == kAll) {
      for (unsigned r = 0; r < replicas_.size(); ++r) f(r, replicas_[r]);
      return;
    }
    if (replica >= replicas_.size()) {
      throw poplar::stream_connection_error(std::string(function) + ": there is no replica " +
                                            std::to_string(replica) + "; the engine runs " +
                                            std::to_string(replicas_.size()));
    }
    f(replica, replicas_[replica]);
  }

  void Load();
  // Runs as a replica of a launch that someone else begins.
  void SetReplica(const Replica& replica);
  void Run(unsigned number);

  // Where codelets print to.
  void SetPrintStream(std::ostream& stream) { print_stream_ = &stream; }

  // As FastEngine::ConnectStream.
  void Connect(std::uint32_t stream, void* begin);
  void Connect(std::uint32_t stream, unsigned replica, void* begin, void* end);
  void Connect(std::uint32_t stream, unsigned replica, std::shared_ptr<poplar::StreamCallback> callback);

  // The profile.
  void Record(unsigned number, const std::string& name) {
    if (profiling_ && !options_.one_replica) AddRun(number, name);
  }
  void ResetRuns() { runs_.clear(); }
  void SetProfiling(bool profiling) { profiling_ = profiling; }
  ProfileFile Describe(bool with_runs) const;

 private:
  struct RunRecord {
    unsigned number;
    std::string name;
    std::vector<LoopRun> loops;
  };

  // Throws stream_connection_error for another replica than the first of a stream that is one for all.
  void CheckBroadcast(const char* function, std::uint32_t stream, unsigned replica) const;
  void RunTogether(unsigned number);
  void AddRun(unsigned number, const std::string& name);
  void SaveProfile() const;

  const poplar::Executable executable_;
  const EngineOptions options_;
  std::vector<ReplicaEngine> replicas_;
  // By replica and stream. After the engines, which refer to them.
  std::map<std::pair<unsigned, std::uint32_t>, std::unique_ptr<StreamPort>> ports_;
  bool loaded_ = false, profiling_ = true;
  std::ostream* print_stream_ = nullptr;
  std::vector<RunRecord> runs_;
};

// Compiles, and writes the profile of a program that does not fit, if the options ask for profiles.
poplar::Executable CompileForEngine(const poplar::Graph& graph,
                                    const std::vector<poplar::program::Program>& programs,
                                    const poplar::OptionFlags& flags, const poplar::ProgressFunc& progress,
                                    const poplar::DebugContext& debug);

}  // namespace ipu_model

#endif  // IPU_MODEL_ENGINE_ENGINE_STATE_H_
