// The plane of one device: its work, step by step, as events in modelled time.
#ifndef JAX_IPU_PROFILING_PLANE_BUILDER_H_
#define JAX_IPU_PROFILING_PLANE_BUILDER_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "ipu_model/Model.hpp"
#include "ipu_model/Timeline.hpp"
#include "poplar/Target.hpp"
#include "profiling/trace_planes.h"
#include "runtime/executable/executable.h"
#include "runtime/recording/trace.h"

namespace jax_ipu {

// The plane of one device under construction, and the time at which the device is free.
class PlaneBuilder {
 public:
  PlaneBuilder(const TracedWork& first, const PlaneOptions& options);

  // In picoseconds.
  std::uint64_t free_at() const { return free_at_; }

  // Adds the work, which begins at `begin_ps`. `number`: of the run in the trace, from 1 on. `steps_left`:
  // how many steps may still be shown.
  void Add(const TracedWork& work, std::int64_t number, std::uint64_t begin_ps, std::uint64_t* steps_left);

  TracePlane Take() &&;

 private:
  enum Line : std::size_t { kSteps, kModules, kOperations, kPhases, kHostLink, kIpuLinks, kLoops, kNumLines };
  struct OpenLoop {
    std::string name;
    std::uint64_t trips, begin;
  };

  void AddDeviceStats(const TracedWork& work);

  // `cycles` since the work began, as a time. Sums of durations are exact to a picosecond.
  std::uint64_t TimeOf(std::uint64_t cycles) const;

  void AddEvent(Line line, std::uint32_t kind, std::uint32_t statistics, std::uint64_t begin,
                std::uint64_t end);
  // An event that begins now.
  void AddEvent(Line line, std::uint32_t kind, std::uint64_t cycles);
  // XProf's steps are groups of events: every run is one. It numbers those of the host from 1 on in each
  // trace.
  TraceStats RunStats(const TracedWork& work) const;
  // Adds the statistics of one event, beside those of its kind; returns their number.
  std::uint32_t Statistics(TraceStats stats);

  // The kind of the events with this key; `make` gives the statistics of a new one.
  template <typename F>
  std::uint32_t KindOf(const void* program, Line line, std::string name, std::uint64_t number,
                       std::uint64_t executions, F&& make);

  void AddTransfer(const TracedTransfer& transfer);

  void AddRun(const TracedWork& work, std::uint64_t* steps_left);

  // Returns false, and adds nothing, if the steps of the run are not known or too many.
  bool AddSteps(const TracedWork& work, std::uint64_t* steps_left);

  bool AddSteps(const TracedWork& work, std::uint64_t most_of_loop, std::uint64_t* steps_left);

  void AddStep(const TracedWork& work, const ipu_model::Timeline::Step& step);

  TraceStats CommonStats(const std::string& name, std::uint64_t executions,
                         const ipu_model::Cycles& cycles) const;

  void AddOperation(const ipu_model::Timeline& timeline, const ipu_model::Timeline::Step& step);

  // A step without an operation: its name is that of the loop or conditional.
  void AddControl(const ipu_model::Timeline::Step& step, const std::string& what, std::string_view where);

  // A superstep, number `number` of its operation, is a sync, the exchange, and the compute phase.
  // `superstep`: all executions together.
  void AddPhases(const std::string& operation, std::uint64_t executions, std::size_t number,
                 const ipu_model::SuperstepCost& superstep);

  void AddHostStep(const TracedWork& work, const ipu_model::Timeline::Step& step);

  // Transfers to and from tiles for input and output go on while the other tiles compute.
  void WaitForLink() { position_ = std::max(position_, link_free_at_); }

  const poplar::Target target_;
  const double clock_hz_;
  const bool has_steps_;
  TracePlane plane_;
  std::array<TraceLine, kNumLines> lines_;
  std::uint64_t free_at_ = 0;
  std::uint64_t runs_without_steps_ = 0, runs_folded_ = 0;
  // Program, line, name, number, executions.
  std::map<std::tuple<const void*, Line, std::string, std::uint64_t, std::uint64_t>, std::uint32_t> kinds_;

  // Of the work under construction.
  const Executable* program_ = nullptr;
  std::int64_t program_id_ = 0;
  std::uint32_t run_ = 0;    // statistics of its events
  std::int64_t number_ = 0;  // of the run
  std::uint64_t begin_ps_ = 0;
  std::uint64_t position_ = 0;  // in cycles since the beginning
  std::uint64_t link_free_at_ = 0;
  std::vector<OpenLoop> open_loops_;
};

}  // namespace jax_ipu

#endif  // JAX_IPU_PROFILING_PLANE_BUILDER_H_
