// The contents of the device's SRAM: the loaded program, and the arrays in its resident variables.
#ifndef JAX_IPU_RUNTIME_DEVICE_RESIDENCY_H_
#define JAX_IPU_RUNTIME_DEVICE_RESIDENCY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/device/device_engine.h"
#include "runtime/device/wait_habit.h"
#include "runtime/executable/executable.h"
#include "runtime/host_calls/ffi_calls.h"
#include "runtime/host_calls/host_callbacks.h"
#include "runtime/memory/array.h"
#include "runtime/recording/trace.h"
#include "runtime/recording/usage.h"

namespace jax_ipu {

// One executable on one device. The engine is created when it is first loaded.
class LoadedProgram {
 public:
  // The program runs as this replica of the executable. Throws Error when the program calls back functions
  // that this process does not have.
  explicit LoadedProgram(std::shared_ptr<const Executable> executable, unsigned replica = 0);
  const std::shared_ptr<const Executable>& executable() const { return executable_; }
  unsigned replica() const { return replica_; }
  WaitHabit& wait_habit() { return wait_habit_; }

 private:
  friend class Residency;
  struct Input {
    int stream = -1, write_stream = -1, read_stream = -1;
    bool is_remote = false;           // main reads rows of it from a remote buffer
    std::weak_ptr<Array> resident;    // the array whose value the variable holds; expired: unused
    std::weak_ptr<HostBlock> kept;    // the host memory that the variable of a kept input copies
    const void* kept_data = nullptr;  // where that was
  };
  const std::shared_ptr<const Executable> executable_;
  const unsigned replica_;
  const HostCallbackReferences callbacks_;
  FfiCalls ffi_calls_;
  WaitHabit wait_habit_;
  std::size_t resident_bytes_ = 0;
  std::unique_ptr<DeviceEngine> engine_;
  std::vector<Input> inputs_;
  std::vector<int> output_streams_;
  std::vector<bool> output_is_remote_;
  int seed_stream_ = -1;              // of programs that draw random numbers
  std::shared_ptr<HostBlock> zeros_;  // with synthetic data, what every input stream reads
};

struct Argument {
  std::shared_ptr<Array> array;
  bool donated;  // the caller has given the array up, and nothing else holds it
};
using ArrayList = std::vector<std::shared_ptr<Array>>;

// How the main program of a run is told to end early.
struct Cancellation {
  std::atomic<bool> requested{false};  // read at every superstep
  std::function<void()> poll;          // called now and then while the program runs; may be empty
};

// Every method is called by one thread at a time (DeviceRuntime sees to it), except counters(),
// CountRead() and memory use, which any thread may call.
class Residency {
 public:
  Residency(DeviceConfig config, EngineFactory factory, std::shared_ptr<HostPool> pool, int device_id,
            const Cancellation& cancellation, std::shared_ptr<DeviceUsage> usage)
      : config_(std::move(config)),
        factory_(std::move(factory)),
        pool_(std::move(pool)),
        device_id_(device_id),
        cancellation_(cancellation),
        usage_(std::move(usage)),
        seed_(FirstSeed(static_cast<unsigned>(device_id))) {}

  // Runs main once. Arguments that are in their variable are used in place, others are written first; results
  // that alias an argument stay resident. Throws Error; no output is valid then, and the state that was
  // donated is gone: a run that fails or is cancelled may have overwritten part of it. `group`: the replicas
  // that the program communicates with, or null. `run_id`: for traces; 0: a new one.
  void Run(const std::shared_ptr<LoadedProgram>& program, const std::vector<Argument>& arguments,
           const ArrayList& outputs, ipu_model::ReplicaGroup* group = nullptr, std::uint64_t run_id = 0);
  // Gives the array a host copy, once. Throws the array's own error.
  void Fetch(Array& array);
  // Like Fetch, for a copy to another IPU over the links.
  void FetchForLinks(Array& array);
  // Counts a read, by the host, of an array that has host memory. Called on any thread.
  void CountRead(Array& array);
  const std::shared_ptr<DeviceUsage>& usage() const { return usage_; }
  // Whether running `program` next takes no longer than its main: no loading, no large spill.
  bool IsCheapToSwitchTo(const LoadedProgram& program) const;

  Counters counters() const;
  int device_id() const { return device_id_; }
  const DeviceConfig& config() const { return config_; }
  std::uint64_t bytes_in_use() const { return usage_->bytes_in_use.load(std::memory_order_relaxed); }
  std::uint64_t peak_bytes_in_use() const {
    return usage_->peak_bytes_in_use.load(std::memory_order_relaxed);
  }

 private:
  void RunUntraced(const std::shared_ptr<LoadedProgram>& program, const std::vector<Argument>& arguments,
                   const ArrayList& outputs, ipu_model::ReplicaGroup* group);
  // For traces: a transfer of the run that is traced, or else one by itself.
  void TraceTransfer(TracedTransfer::Kind kind, const std::string& name, std::uint64_t bytes);
  void AddToTraces(const TracedTransfer& transfer) const;
  std::shared_ptr<TracedWork> NewWork() const;
  void Load(const std::shared_ptr<LoadedProgram>& program);
  std::shared_ptr<HostBlock> Read(const Array& array);
  // Bytes over the host link that writing the array to a variable costs.
  static std::uint64_t BytesToSend(Array& array);
  void Connect(LoadedProgram& program);
  void Spill(LoadedProgram& program);
  // Moves states that the last run left in variables of other arguments to their own variables, on the
  // device.
  void SwapStates(LoadedProgram& program, const std::vector<Argument>& arguments);
  static void Swap(LoadedProgram& program, std::size_t first, std::size_t other);
  // Before main: makes host copies of all values that main streams, or that lose their variable.
  void PrepareHostCopies(LoadedProgram& program, const std::vector<Argument>& arguments);
  void CountWrite(const LoadedProgram& program, std::size_t input, std::uint64_t bytes);
  void WriteState(LoadedProgram& program, const std::vector<Argument>& arguments);
  void CheckCancelled(const LoadedProgram& program) const;
  void RunMain(LoadedProgram& program);
  void WriteKept(LoadedProgram& program, const std::vector<Argument>& arguments);
  void ConnectStreams(LoadedProgram& program, const std::vector<Argument>& arguments,
                      const ArrayList& outputs);
  void TransferState(LoadedProgram& program, const std::vector<Argument>& arguments,
                     const ArrayList& outputs);
  void CountHostCalls(const LoadedProgram& program);
  void LogRun(const LoadedProgram& program) const;
  // A transfer between the host and the variable of input `slot`.
  void LogTransfer(const char* what, std::size_t slot, std::size_t bytes) const;
  static void ReleaseState(LoadedProgram& program, const std::vector<Argument>& arguments);
  static void ForgetKept(LoadedProgram& program);
  static bool IsIn(const Array& array, const LoadedProgram& program, std::size_t slot) {
    return array.program_.get() == &program && array.slot_ == slot;
  }
  // With synthetic data, nothing crosses the host link.
  void CountSent(std::uint64_t bytes) {
    if (!config_.synthetic_data) Add(usage_->h2d_bytes, bytes);
  }
  void CountReceived(std::uint64_t bytes) {
    if (!config_.synthetic_data) Add(usage_->d2h_bytes, bytes);
  }
  // The memory that a stream reads in place of the array's.
  void* SourceOf(const LoadedProgram& program, const Array& array) const {
    return config_.synthetic_data ? program.zeros_->data() : array.host()->data();
  }

  const DeviceConfig config_;
  const EngineFactory factory_;
  const std::shared_ptr<HostPool> pool_;
  std::shared_ptr<LoadedProgram> loaded_;
  const int device_id_;
  const Cancellation& cancellation_;
  const std::shared_ptr<DeviceUsage> usage_;
  Seed seed_;                     // of the next run that draws random numbers
  TracedWork* traced_ = nullptr;  // the run, while it is traced
};

}  // namespace jax_ipu

#endif  // JAX_IPU_RUNTIME_DEVICE_RESIDENCY_H_
