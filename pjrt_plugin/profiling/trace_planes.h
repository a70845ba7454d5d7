// A recording as a profile: a plane for each device, with lines of events in modelled time.
#ifndef JAX_IPU_PROFILING_TRACE_PLANES_H_
#define JAX_IPU_PROFILING_TRACE_PLANES_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "runtime/recording/trace.h"

namespace jax_ipu {

struct TraceStat {
  const char* name;
  std::variant<std::int64_t, std::uint64_t, double, std::string> value;
};
using TraceStats = std::vector<TraceStat>;

// What equal events have in common.
struct TraceEventKind {
  std::string name;
  TraceStats stats;
};

// Times are in picoseconds since the beginning of the recording.
struct TraceEvent {
  std::uint32_t kind = 0;        // index into TracePlane::kinds
  std::uint32_t statistics = 0;  // index into TracePlane::event_stats
  std::uint64_t begin_ps = 0, duration_ps = 0;
};

// Events of one line follow each other, or contain each other.
struct TraceLine {
  std::int64_t id = 0;
  std::string name;
  std::vector<TraceEvent> events;
};

struct TracePlane {
  std::int64_t id = 0;
  std::string name;
  TraceStats stats;
  std::vector<TraceEventKind> kinds;
  std::vector<TraceStats> event_stats;
  std::vector<TraceLine> lines;  // those that have events
};

struct PlaneOptions {
  // Planes are named "/device:TPU:N" instead of "/device:CUSTOM:IPU:N": tools of XProf for TPUs then show
  // them.
  bool as_tpu = false;
  // Supersteps in the trace. Further runs have no events of operations.
  std::uint64_t most_steps = std::uint64_t{1} << 17;
};

// The planes of the devices that did anything, in the order of their ids. A device begins a work when the
// host does, or when the work before it has ended; then it takes the time that the model gives. Call after
// Stop.
std::vector<TracePlane> MakePlanes(const Trace& trace, const PlaneOptions& options);

// What the planes lack because the trace is full, and what to do: a sentence for each. MakePlanes logs them.
std::vector<std::string> WarningsOf(const std::vector<TracePlane>& planes);

}  // namespace jax_ipu

#endif  // JAX_IPU_PROFILING_TRACE_PLANES_H_
