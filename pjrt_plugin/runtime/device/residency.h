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
#include "runtime/device/link_round.h"
#include "runtime/device/wait_habit.h"
#include "runtime/executable/executable.h"
#include "runtime/executable/image.h"
#include "runtime/host_calls/ffi_calls.h"
#include "runtime/host_calls/host_callbacks.h"
#include "runtime/memory/array.h"
#include "runtime/recording/trace.h"
#include "runtime/recording/usage.h"

namespace jax_ipu {

class LoadedProgram;

inline bool IsSameBlock(const std::weak_ptr<HostBlock>& one, const std::shared_ptr<HostBlock>& other) {
  return !one.owner_before(other) && !other.owner_before(one);
}

// An image on one device. The engine is created when it is first loaded. Used by the device's thread only.
class LoadedImage {
 public:
  // `executable` has the Poplar program that the engine runs.
  LoadedImage(std::shared_ptr<const Executable> executable, Image image);

 private:
  friend class LoadedProgram;
  friend class Residency;
  struct Variable {
    int write_stream = -1, read_stream = -1;
    std::weak_ptr<Array> resident;    // the array whose value the variable holds; expired: unused
    std::weak_ptr<HostBlock> kept;    // the host memory that the variable copies, where it holds no array
    const void* kept_data = nullptr;  // where that was
    std::weak_ptr<HostBlock>
        last;  // as `kept`, also when the copy is lost: who passes it shares the variable
  };
  // The bytes of arrays whose value only a variable has.
  std::size_t BytesOfArrays() const;
  // These, and the bytes of arrays in host memory that programs use.
  std::size_t BytesOfState() const;

  const std::shared_ptr<const Executable> executable_;
  const Image image_;
  std::vector<Variable> variables_;
  std::unique_ptr<DeviceEngine> engine_;
  std::vector<std::weak_ptr<LoadedProgram>> programs_;  // by entry
  std::shared_ptr<HostBlock> zeros_;                    // with synthetic data, what every input stream reads
};

// One executable on one device: an entry of an image.
class LoadedProgram {
 public:
  // The program runs as this replica of the executable. `source`: null for a program that cannot be linked.
  // Throws Error when the program calls back functions that this process does not have.
  explicit LoadedProgram(std::shared_ptr<const Executable> executable, unsigned replica = 0,
                         std::shared_ptr<const ProgramSource> source = nullptr);
  const std::shared_ptr<const Executable>& executable() const { return executable_; }
  unsigned replica() const { return replica_; }
  WaitHabit& wait_habit() { return wait_habit_; }
  unsigned num_ipus() const {
    return static_cast<unsigned>(executable_->num_replicas * executable_->num_partitions);
  }
  // Whether a launch over several IPUs lets all its replicas decide if the program is linked (LinkRound). Any
  // thread may call it.
  bool asks_others() const { return asks_others_.load(std::memory_order_relaxed); }

 private:
  friend class LoadedImage;
  friend class Residency;
  struct Input {
    int stream = -1;
    bool is_remote = false;  // main reads rows of it from a remote buffer
  };
  bool CanLink() const { return may_link_ && source_ != nullptr && !executable_->calls_host(); }
  const ImageEntry& entry() const { return image_->image_.entries[entry_]; }
  // The variable of an input, or -1.
  int variable(std::size_t input) const { return entry().variables[input]; }
  // Becomes an entry of another image, whose streams it has yet to find.
  void MoveTo(std::shared_ptr<LoadedImage> image, std::size_t entry);

  const std::shared_ptr<const Executable> executable_;
  const unsigned replica_;
  const std::shared_ptr<const ProgramSource> source_;
  const HostCallbackReferences callbacks_;
  FfiCalls ffi_calls_;
  WaitHabit wait_habit_;
  std::shared_ptr<LoadedImage> image_;
  std::size_t entry_ = 0;
  bool connected_ = false;  // whether the streams below are known
  bool may_link_ = true;    // false after an attempt that failed
  std::atomic<bool> asks_others_;
  unsigned times_returned_ = 0;  // how often it took the place of an image that held its arguments
  std::vector<Input> inputs_;
  std::vector<int> output_streams_;
  std::vector<bool> output_is_remote_;
  std::vector<std::weak_ptr<HostBlock>>
      host_arrays_;       // arguments and results in host memory, of the last run
  int seed_stream_ = -1;  // of programs that draw random numbers
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
            const Cancellation& cancellation, std::shared_ptr<DeviceUsage> usage, Linker linker = {})
      : config_(std::move(config)),
        factory_(std::move(factory)),
        linker_(std::move(linker)),
        pool_(std::move(pool)),
        device_id_(device_id),
        cancellation_(cancellation),
        usage_(std::move(usage)),
        seed_(FirstSeed(static_cast<unsigned>(device_id))) {}

  // Runs main once. Arguments that are in their variable are used in place, others are written first; results
  // that alias an argument stay resident. Throws Error; no output is valid then, and the state that was
  // donated is gone: a run that fails or is cancelled may have overwritten part of it. `group`: the replicas
  // that the program communicates with, or null. `run_id`: for traces; 0: a new one. `round`: where the
  // replicas decide together whether the program is linked, or null.
  void Run(const std::shared_ptr<LoadedProgram>& program, const std::vector<Argument>& arguments,
           const ArrayList& outputs, ipu_model::ReplicaGroup* group = nullptr, std::uint64_t run_id = 0,
           LinkRound* round = nullptr);
  // Gives the array a host copy, once. Throws the array's own error.
  void Fetch(Array& array);
  // Like Fetch, for a copy to another IPU over the links.
  void FetchForLinks(Array& array);
  // Counts a read, by the host, of an array that has host memory. Called on any thread.
  void CountRead(Array& array);
  const std::shared_ptr<DeviceUsage>& usage() const { return usage_; }
  // Whether running `program` next takes no longer than its main: no loading, no large spill, no linking.
  bool IsCheapToSwitchTo(const LoadedProgram& program, const std::vector<Argument>& arguments) const;

  Counters counters() const;
  int device_id() const { return device_id_; }
  const DeviceConfig& config() const { return config_; }
  std::uint64_t bytes_in_use() const { return usage_->bytes_in_use.load(std::memory_order_relaxed); }
  std::uint64_t peak_bytes_in_use() const {
    return usage_->peak_bytes_in_use.load(std::memory_order_relaxed);
  }

 private:
  void RunUntraced(const std::shared_ptr<LoadedProgram>& program, const std::vector<Argument>& arguments,
                   const ArrayList& outputs, ipu_model::ReplicaGroup* group, LinkRound* round);
  // For traces: a transfer of the run that is traced, or else one by itself.
  void TraceTransfer(TracedTransfer::Kind kind, const std::string& name, std::uint64_t bytes);
  void AddToTraces(const TracedTransfer& transfer) const;
  std::shared_ptr<TracedWork> NewWork() const;
  void Load(const std::shared_ptr<LoadedProgram>& program, const std::vector<Argument>& arguments);
  // Whether `program` should share an engine with the programs that are loaded, as it takes arrays from their
  // variables, or those in host memory that they use.
  bool ShouldLink(const LoadedProgram& program, const std::vector<Argument>& arguments) const;
  // What a program takes of the state of the loaded image, and of the copies in its variables.
  struct Shared {
    std::size_t arrays = 0, bytes = 0, all = 0;  // `all`: bytes that it could take
  };
  Shared SharedState(const LoadedProgram& program, const std::vector<Argument>& arguments) const;
  Shared SharedCopies(const std::vector<Argument>& arguments) const;
  // The variable of the loaded image that has the value of the array, or -1.
  int SlotInLoaded(const Array& array) const;
  // The programs of the loaded image with `program` and those of its image, and the variables that they
  // share.
  struct LinkPlan {
    std::vector<std::shared_ptr<LoadedProgram>> programs;
    std::vector<LinkPart> parts;
    std::uint64_t Digest() const;  // never 0
  };
  LinkPlan PlanLink(const std::shared_ptr<LoadedProgram>& program,
                    const std::vector<Argument>& arguments) const;
  // Gives these programs the image that `make` makes. Where that cannot be, they stay as they are.
  void Link(const LoadedProgram& program, const LinkPlan& plan, const std::function<LinkedProgram()>& make);
  // Links the program if all replicas of the launch would link it with the same ones.
  void LinkTogether(const std::shared_ptr<LoadedProgram>& program, const std::vector<Argument>& arguments,
                    LinkRound& round);
  std::shared_ptr<HostBlock> Read(const Array& array);
  // Bytes over the host link that writing the array to a variable costs.
  static std::uint64_t BytesToSend(Array& array);
  void Connect(LoadedImage& image);
  void Connect(LoadedProgram& program);
  void Spill(LoadedImage& image);
  // Gives the array in the variable a host copy, and frees the variable.
  void Evict(LoadedImage::Variable& variable);
  // Moves states that the last run left in variables of other arguments to their own variables, on the
  // device.
  void SwapStates(LoadedProgram& program, const std::vector<Argument>& arguments);
  static void Swap(LoadedImage& image, std::size_t first, std::size_t other);
  // Before main: makes host copies of all values that main streams, or that lose their variable.
  void PrepareHostCopies(LoadedProgram& program, const std::vector<Argument>& arguments);
  void CountWrite(const ImageVariable& variable, std::uint64_t bytes);
  // Whether the variable was written from this host memory, where it is now.
  static bool IsCopyOf(const LoadedImage::Variable& variable, const std::shared_ptr<HostBlock>& block);
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
  // A transfer between the host and a variable.
  void LogTransfer(const char* what, const ImageVariable& variable, std::size_t bytes) const;
  static void ReleaseState(LoadedProgram& program, const std::vector<Argument>& arguments);
  static void ForgetKept(LoadedImage& image);
  // Whether the array is in the variable of an input of the program.
  static bool IsInPlace(const Array& array, const LoadedProgram& program, std::size_t input) {
    return array.image_ == program.image_ && static_cast<int>(array.slot_) == program.variable(input);
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
    return config_.synthetic_data ? program.image_->zeros_->data() : array.host()->data();
  }

  const DeviceConfig config_;
  const EngineFactory factory_;
  const Linker linker_;  // empty: programs are not linked
  const std::shared_ptr<HostPool> pool_;
  std::shared_ptr<LoadedImage> loaded_;
  std::weak_ptr<LoadedProgram> shown_;  // whose name other processes see
  const int device_id_;
  const Cancellation& cancellation_;
  const std::shared_ptr<DeviceUsage> usage_;
  Seed seed_;                     // of the next run that draws random numbers
  TracedWork* traced_ = nullptr;  // the run, while it is traced
};

}  // namespace jax_ipu

#endif  // JAX_IPU_RUNTIME_DEVICE_RESIDENCY_H_
