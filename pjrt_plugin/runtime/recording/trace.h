// Recording what the devices do, for profilers. While nobody records, it costs one relaxed read per run.
#ifndef JAX_IPU_RUNTIME_RECORDING_TRACE_H_
#define JAX_IPU_RUNTIME_RECORDING_TRACE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ipu_model/Timeline.hpp"
#include "runtime/executable/executable.h"

namespace jax_ipu {

// A transfer of one tensor by an engine program of its own, or by a copy between IPUs.
struct TracedTransfer {
  enum class Kind { kFromHost, kToHost, kFromIpu, kToIpu };
  Kind kind = Kind::kFromHost;
  std::string name;  // of the stream; empty for copies between IPUs
  std::uint64_t bytes = 0;
  std::uint64_t cycles = 0;  // of copies between IPUs
};

// What one device did: a run with the transfers before it, or a transfer alone. Times are of the host, in
// nanoseconds since 1970.
struct TracedWork {
  int device_id = 0;
  std::string version;  // of the device, as in DeviceConfig
  unsigned num_tiles = 0;
  std::uint64_t run_id = 0;   // the replicas of a launch have the same
  bool meets_others = false;  // the works of this run_id on several devices are simultaneous
  std::int64_t begin_ns = 0, end_ns = 0;
  std::vector<TracedTransfer> transfers;

  // Of a run; null for a transfer.
  std::shared_ptr<const Executable> executable;
  unsigned replica = 0;
  std::uint64_t cycles = 0;
  std::shared_ptr<const ipu_model::Timeline> timeline;  // null if the engine has none, or the run failed
  std::vector<ipu_model::LoopRun> loops;
  bool has_host_link = true;  // false: nothing crosses it
  std::string stream_prefix;  // of the names of its streams in the timeline (Image)
  // Streams whose data came from another IPU, so not over the host link.
  std::vector<std::string> streams_from_ipus;
  std::string error;  // of a run that failed: what it did until then is not known
};

// A recording, from its creation to Stop. Several may be active at once. Thread safe.
class Trace {
 public:
  Trace();
  ~Trace() { Stop(); }
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  void Stop();
  std::int64_t begin_ns() const { return begin_ns_; }
  // The works that began and ended between Trace() and Stop(), in the order in which they ended.
  std::vector<std::shared_ptr<const TracedWork>> works() const;
  // Works beyond the most that a trace keeps.
  std::uint64_t num_dropped() const;

  // Whether any trace is active.
  static bool IsActive() { return num_active_.load(std::memory_order_relaxed) != 0; }
  static std::int64_t Now();
  static std::uint64_t NextRunId();
  // Adds the work to all traces that were active when it began.
  static void Add(std::shared_ptr<const TracedWork> work);

 private:
  static std::atomic<int> num_active_;

  const std::int64_t begin_ns_;
  bool stopped_ = false;  // this and the members below: guarded by the mutex of all traces
  std::vector<std::shared_ptr<const TracedWork>> works_;
  std::uint64_t num_dropped_ = 0;
};

}  // namespace jax_ipu

#endif  // JAX_IPU_RUNTIME_RECORDING_TRACE_H_
