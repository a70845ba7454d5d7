// The interface between the device runtime and an engine that runs one executable on one device.
#ifndef JAX_IPU_RUNTIME_DEVICE_DEVICE_ENGINE_H_
#define JAX_IPU_RUNTIME_DEVICE_DEVICE_ENGINE_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ipu_model/Model.hpp"
#include "ipu_model/Timeline.hpp"
#include "runtime/executable/executable.h"

namespace jax_ipu {

class FfiCalls;

// Bytes that calls of host functions, and copies from and to remote buffers, moved over the host link.
struct HostCallTraffic {
  std::uint64_t h2d_bytes = 0, d2h_bytes = 0;
};

// Seed of a program that draws random numbers, read from the stream kSeedStream: key and counter
// of a generator.
using Seed = std::array<std::uint64_t, 2>;
inline constexpr char kSeedStream[] = "seed";
// Every run increments the key, so that neither two runs nor two devices draw the same numbers.
constexpr Seed FirstSeed(unsigned device_id) { return {std::uint64_t{device_id} << 48, 0}; }

// Not thread safe: the device runtime calls it from one thread at a time.
class DeviceEngine {
 public:
  virtual ~DeviceEngine() = default;
  // Makes this the engine on the device. State in SRAM is lost.
  virtual void Load() = 0;
  virtual bool HasStream(const std::string& name) const = 0;
  // Throws Error when the program has no such stream.
  virtual int StreamIndex(const std::string& name) const = 0;
  // The memory must stay valid until the next Run has returned; for a kept input, as long as its copy is
  // used.
  virtual void ConnectStream(int stream, void* host) = 0;
  virtual bool HasRemoteBuffer(const std::string& /*name*/) const { return false; }
  // The memory must stay valid until DisconnectRemoteBuffers, which disconnects that of all buffers.
  virtual void ConnectRemoteBuffer(const std::string& /*name*/, void* /*host*/) {}
  virtual void DisconnectRemoteBuffers() {}
  // Connects the host functions that call foreign functions. `calls` must outlive the engine.
  virtual void ConnectFfiCalls(FfiCalls& calls, int device_ordinal) = 0;
  // Sets the replica as which the next runs take part in collectives.
  virtual void SetReplica(const ipu_model::Replica& replica) = 0;
  // The next runs end with an exception at the first superstep after `*cancelled` has become true. Null: they
  // are not cancelled. `poll`, unless empty, is called repeatedly on the thread of the run.
  virtual void SetCancellation(const std::atomic<bool>* cancelled, std::function<void()> poll) = 0;
  virtual void Run(int program) = 0;
  // Device cycles of the last Run, which was one of a main program.
  virtual std::uint64_t LastRunCycles() const = 0;
  virtual HostCallTraffic LastHostCalls() const { return {}; }
  // For traces: the steps of runs of a main program, or null; and what the loops of the last Run did.
  virtual std::shared_ptr<const ipu_model::Timeline> timeline(int /*main*/) { return nullptr; }
  virtual std::vector<ipu_model::LoopRun> LastRunLoops() const { return {}; }
};

// Throws Error when the executable's program cannot run on this device.
using EngineFactory = std::function<std::unique_ptr<DeviceEngine>(const Executable&, const DeviceConfig&)>;

// Runs the executable with poplar::Engine.
std::unique_ptr<DeviceEngine> CreatePoplarEngine(const Executable& executable, const DeviceConfig& config);

// For a stored executable: throws Error if it has codelets, C++ of its author, that this process has not
// compiled itself, so that it is refused when it is loaded and not when it runs.
void CheckCodelets(const Executable& executable);

// For an executable of this process's own compile server: compiles its codelets, which are the program's that
// this process wants to run. Throws Error with the C++ compiler's message.
void CompileCodelets(const Executable& executable);

}  // namespace jax_ipu

#endif  // JAX_IPU_RUNTIME_DEVICE_DEVICE_ENGINE_H_
