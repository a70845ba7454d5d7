#include "profiling/plane_builder.h"

#include <algorithm>
#include <utility>

#include "runtime/executable/stream_titles.h"

namespace jax_ipu {
namespace {

using ipu_model::Cycles;
using ipu_model::OperationCost;
using ipu_model::SuperstepCost;
using ipu_model::Timeline;

// Loops with more steps are folded; where the trace is full, those with fewer as well.
constexpr std::array<std::uint64_t, 3> kMostStepsOfLoop = {4096, 64, 1};
constexpr const char* kSimulated = "simulated";

poplar::Target TargetOf(const TracedWork& work) {
  if (work.num_tiles == 0) return poplar::Target::createIPUTarget(1, work.version);
  return poplar::Target::createIPUTarget(1, work.num_tiles, work.version);
}

// A number that equal programs have, in this process and others.
std::int64_t ProgramId(const Executable& executable) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : executable.fingerprint) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  }
  return static_cast<std::int64_t>(hash >> 1);  // tools read it as signed
}

// Debug names are "dot_general model.py:12 (loss)": the operation, then where it comes from.
std::string OperationName(const OperationCost& cost) { return cost.name.substr(0, cost.name.find(' ')); }
std::string SourceOf(const OperationCost& cost) {
  const std::size_t space = cost.name.find(' ');
  return space == std::string::npos ? "" : cost.name.substr(space + 1);
}

}  // namespace

PlaneBuilder::PlaneBuilder(const TracedWork& first, const PlaneOptions& options)
    : target_(TargetOf(first)), clock_hz_(target_.getTileClockFrequency()), has_steps_(options.as_tpu) {
  plane_.id = first.device_id;
  plane_.name = (options.as_tpu ? "/device:TPU:" : "/device:CUSTOM:IPU:") + std::to_string(first.device_id);
  AddDeviceStats(first);
  constexpr std::array<const char*, kNumLines> names = {"Steps",     "XLA Modules", "XLA Ops", "BSP phases",
                                                        "Host link", "IPU-Links",   "Loops"};
  constexpr std::array<std::int64_t, kNumLines> ids = {1, 2, 3, 10, 11, 12, 13};
  for (std::size_t i = 0; i < kNumLines; ++i) {
    lines_[i].id = ids[i];
    lines_[i].name = names[i];
  }
}

void PlaneBuilder::Add(const TracedWork& work, std::int64_t number, std::uint64_t begin_ps,
                       std::uint64_t* steps_left) {
  begin_ps_ = begin_ps;
  number_ = number;
  position_ = link_free_at_ = 0;
  run_ = static_cast<std::uint32_t>(plane_.event_stats.size());
  plane_.event_stats.push_back(RunStats(work));
  for (const TracedTransfer& transfer : work.transfers) AddTransfer(transfer);
  if (work.executable) AddRun(work, steps_left);
  free_at_ = TimeOf(position_);
}

TracePlane PlaneBuilder::Take() && {
  if (runs_without_steps_ > 0) plane_.stats.push_back({"runs_without_operations", runs_without_steps_});
  if (runs_folded_ > 0) plane_.stats.push_back({"runs_with_folded_loops", runs_folded_});
  // A loop is added when it ends, so after those in it.
  std::reverse(lines_[kLoops].events.begin(), lines_[kLoops].events.end());
  std::stable_sort(lines_[kLoops].events.begin(), lines_[kLoops].events.end(),
                   [](const TraceEvent& a, const TraceEvent& b) {
                     return std::make_pair(a.begin_ps, b.duration_ps) <
                            std::make_pair(b.begin_ps, a.duration_ps);
                   });
  for (TraceLine& line : lines_) {
    if (!line.events.empty()) plane_.lines.push_back(std::move(line));
  }
  return std::move(plane_);
}

void PlaneBuilder::AddDeviceStats(const TracedWork& work) {
  const double tiles = target_.getNumTiles();
  const double sram = ipu_model::SramBytesPerSecond(target_) / 1e9;
  plane_.stats = {
      {"device_type_string", "Graphcore " + work.version + " (model)"},
      {"clock_domain", std::string(kSimulated)},
      {"clock_rate", static_cast<std::uint64_t>(clock_hz_ / 1e3)},  // in kHz
      {"core_count", static_cast<std::uint64_t>(tiles)},
      {"memory_size", static_cast<std::uint64_t>(tiles * static_cast<double>(target_.getBytesPerTile()))},
      {"memory_bandwidth", static_cast<std::uint64_t>(sram * 1e9)},
      {"peak_teraflops_per_second", ipu_model::PeakFlops(target_) / 1e12},
      {"peak_hbm_bw_gigabytes_per_second", sram},  // the memory of an IPU is the SRAM of its tiles
      {"peak_sram_rd_bw_gigabytes_per_second", sram},
      {"host_link_gigabytes_per_second", ipu_model::HostLinkBytesPerSecond(target_) / 1e9},
      {"ipu_link_gigabytes_per_second", ipu_model::IpuLinkBytesPerSecond(target_) / 1e9},
  };
}

std::uint64_t PlaneBuilder::TimeOf(std::uint64_t cycles) const {
  return begin_ps_ + static_cast<std::uint64_t>(static_cast<long double>(cycles) * 1e12L / clock_hz_);
}

void PlaneBuilder::AddEvent(Line line, std::uint32_t kind, std::uint32_t statistics, std::uint64_t begin,
                            std::uint64_t end) {
  const std::uint64_t from = TimeOf(begin);
  lines_[line].events.push_back({kind, statistics, from, TimeOf(end) - from});
}

void PlaneBuilder::AddEvent(Line line, std::uint32_t kind, std::uint64_t cycles) {
  AddEvent(line, kind, run_, position_, position_ + cycles);
}

TraceStats PlaneBuilder::RunStats(const TracedWork& work) const {
  TraceStats stats = {{"run_id", work.run_id}};
  if (has_steps_ && work.executable) stats.push_back({"group_id", number_});
  return stats;
}

std::uint32_t PlaneBuilder::Statistics(TraceStats stats) {
  plane_.event_stats.push_back(std::move(stats));
  return static_cast<std::uint32_t>(plane_.event_stats.size() - 1);
}

template <typename F>
std::uint32_t PlaneBuilder::KindOf(const void* program, Line line, std::string name, std::uint64_t number,
                                   std::uint64_t executions, F&& make) {
  const auto [entry, is_new] = kinds_.try_emplace({program, line, name, number, executions},
                                                  static_cast<std::uint32_t>(plane_.kinds.size()));
  if (is_new) plane_.kinds.push_back({std::move(name), make()});
  return entry->second;
}

void PlaneBuilder::AddTransfer(const TracedTransfer& transfer) {
  using Kind = TracedTransfer::Kind;
  const bool over_links = transfer.kind == Kind::kFromIpu || transfer.kind == Kind::kToIpu;
  const char* const direction = transfer.kind == Kind::kFromHost  ? "from host"
                                : transfer.kind == Kind::kToHost  ? "to host"
                                : transfer.kind == Kind::kFromIpu ? "copy from IPU"
                                                                  : "copy to IPU";
  const std::uint64_t cycles =
      over_links ? transfer.cycles : ipu_model::HostLinkCycles(target_, 1, transfer.bytes);
  const Line line = over_links ? kIpuLinks : kHostLink;
  const std::string name = transfer.name.empty() ? direction : direction + (": " + transfer.name);
  const std::uint32_t kind = KindOf(nullptr, line, name, transfer.bytes, 1, [&] {
    return TraceStats{{"bytes_transferred", transfer.bytes}, {"cycles", cycles}};
  });
  AddEvent(line, kind, cycles);
  position_ += cycles;
}

void PlaneBuilder::AddRun(const TracedWork& work, std::uint64_t* steps_left) {
  const Executable& executable = *work.executable;
  program_ = work.executable.get();
  program_id_ = ProgramId(executable);
  const std::uint64_t begin = position_;
  if (work.error.empty() && !AddSteps(work, steps_left)) {
    ++runs_without_steps_;
    position_ = begin + work.cycles;
    if (work.timeline && work.has_host_link) {
      const ipu_model::Report& report = work.timeline->report();
      position_ += report.host_link_cycles - report.overlapped_link_cycles;
    }
  }
  const std::string name = executable.name + "(" + std::to_string(program_id_) + ")";
  const std::uint32_t kind = KindOf(program_, kModules, name, 0, 1, [&] {
    const CostReport& cost = executable.cost;
    return TraceStats{{"program_id", program_id_},
                      {"hlo_module", executable.name},
                      {"flops", cost.flops},
                      {"bytes_accessed", static_cast<std::uint64_t>(cost.bytes_accessed)},
                      {"exchange_bytes", cost.exchange_bytes},
                      {"link_bytes", cost.link_bytes},
                      {"memory_bytes", executable.memory.total_bytes},
                      {"num_replicas", std::int64_t{executable.num_replicas} * executable.num_partitions},
                      {"clock_domain", std::string(kSimulated)}};
  });
  TraceStats stats = RunStats(work);
  stats.push_back({"cycles", work.cycles});
  stats.push_back({"replica", static_cast<std::uint64_t>(work.replica)});
  stats.push_back({"host_begin_ns", static_cast<std::uint64_t>(work.begin_ns)});  // since 1970
  stats.push_back({"host_duration_ns", static_cast<std::uint64_t>(work.end_ns - work.begin_ns)});
  if (!work.error.empty()) stats.push_back({"error", work.error});
  AddEvent(kModules, kind, Statistics(std::move(stats)), begin, position_);
  if (!has_steps_) return;
  const std::uint32_t step =
      KindOf(nullptr, kSteps, std::to_string(number_), 0, 1, [] { return TraceStats(); });
  AddEvent(kSteps, step, run_, begin, position_);
}

bool PlaneBuilder::AddSteps(const TracedWork& work, std::uint64_t* steps_left) {
  if (!work.timeline || *steps_left == 0) return false;
  for (const std::uint64_t most_of_loop : kMostStepsOfLoop) {
    if (!AddSteps(work, most_of_loop, steps_left)) continue;
    runs_folded_ += most_of_loop < kMostStepsOfLoop[0] ? 1 : 0;
    return true;
  }
  *steps_left = 0;
  return false;
}

bool PlaneBuilder::AddSteps(const TracedWork& work, std::uint64_t most_of_loop, std::uint64_t* steps_left) {
  std::array<std::size_t, kNumLines> sizes{};
  for (std::size_t i = 0; i < kNumLines; ++i) sizes[i] = lines_[i].events.size();
  const std::uint64_t begin = position_;
  open_loops_.clear();
  // A superstep has at most three phases.
  const auto shown = [&] {
    return std::max<std::uint64_t>(lines_[kOperations].events.size() - sizes[kOperations],
                                   (lines_[kPhases].events.size() - sizes[kPhases] + 2) / 3);
  };
  bool fits = true;
  const bool complete =
      work.timeline->Visit(work.loops, most_of_loop, *steps_left, [&](const Timeline::Step& step) {
        if (fits) AddStep(work, step);
        fits = fits && shown() <= *steps_left;
      });
  if (complete && fits) {
    WaitForLink();
    *steps_left -= shown();
    return true;
  }
  for (std::size_t i = 0; i < kNumLines; ++i) lines_[i].events.resize(sizes[i]);
  position_ = link_free_at_ = begin;
  return false;
}

void PlaneBuilder::AddStep(const TracedWork& work, const Timeline::Step& step) {
  if (step.uses_io_tiles) WaitForLink();
  switch (step.kind) {
    case Timeline::Kind::kOperation:
      return AddOperation(*work.timeline, step);
    case Timeline::Kind::kDecision:
      return AddControl(step, "decision", step.name);
    case Timeline::Kind::kOther:
      return AddControl(step, "loops of other branches", step.name);
    case Timeline::Kind::kStreamIn:
    case Timeline::Kind::kStreamOut:
    case Timeline::Kind::kHostCall:
      return AddHostStep(work, step);
    case Timeline::Kind::kLoopBegin:
      open_loops_.push_back(
          {step.name.empty() ? "loop" : std::string(step.name), step.executions, position_});
      return;
    case Timeline::Kind::kLoopEnd: {
      const OpenLoop loop = std::move(open_loops_.back());
      open_loops_.pop_back();
      const std::uint32_t kind = KindOf(program_, kLoops, loop.name, loop.trips, 1, [&] {
        return TraceStats{{"trips", loop.trips}, {"hlo_module", program_->name}, {"program_id", program_id_}};
      });
      AddEvent(kLoops, kind, run_, loop.begin, position_);
      return;
    }
    case Timeline::Kind::kScopeBegin:
    case Timeline::Kind::kScopeEnd:
      return;
  }
}

TraceStats PlaneBuilder::CommonStats(const std::string& name, std::uint64_t executions,
                                     const Cycles& cycles) const {
  return {{"hlo_module", program_->name},       {"hlo_op", name},
          {"program_id", program_id_},          {"executions", executions},
          {"cycles", cycles.total()},           {"compute_cycles", cycles.compute},
          {"exchange_cycles", cycles.exchange}, {"sync_cycles", cycles.sync}};
}

void PlaneBuilder::AddOperation(const Timeline& timeline, const Timeline::Step& step) {
  const OperationCost& cost = timeline.report().operations[step.operation];
  const std::string name = OperationName(cost) + "." + std::to_string(step.operation);
  const std::uint64_t most = std::max<std::uint64_t>(cost.executions, 1);
  const auto of_step = [&](std::uint64_t of_all) { return of_all / most * step.executions; };
  const std::uint32_t kind = KindOf(program_, kOperations, name, step.operation, step.executions, [&] {
    TraceStats stats = CommonStats(name, step.executions, step.cycles);
    const double part = static_cast<double>(step.executions) / static_cast<double>(most);
    stats.push_back({"hlo_category", cost.kind});
    stats.push_back({"flops", static_cast<std::uint64_t>(cost.flops * part)});
    stats.push_back({"model_flops", static_cast<std::uint64_t>(cost.flops * part)});
    stats.push_back({"bytes_accessed", timeline.bytes_accessed(step.operation) * step.executions});
    stats.push_back({"exchange_bytes", of_step(cost.exchange_bytes)});
    if (cost.link_bytes > 0) stats.push_back({"link_bytes", of_step(cost.link_bytes)});
    stats.push_back({"tiles", static_cast<std::uint64_t>(cost.tiles)});
    if (!cost.scope.empty())
      stats.push_back({"tf_op", cost.scope + ":"});  // the type after the colon is unknown
    if (const std::string source = SourceOf(cost); !source.empty()) {
      stats.push_back({"source", source.substr(0, source.find(' '))});
      stats.push_back({"source_stack", source});
    }
    stats.push_back({"symbol_id", static_cast<std::int64_t>(step.operation + 1)});
    stats.push_back({"deduplicated_name", name});
    return stats;
  });
  AddEvent(kOperations, kind, step.cycles.total());
  const std::vector<SuperstepCost>& supersteps = timeline.supersteps(step.operation);
  if (supersteps.empty()) {
    AddPhases(name, step.executions, 0,
              {step.cycles, of_step(cost.exchange_bytes), of_step(cost.link_bytes)});
  }
  for (std::size_t i = 0; i < supersteps.size(); ++i) {
    const SuperstepCost& one = supersteps[i];
    AddPhases(name, step.executions, i,
              {one.cycles * step.executions, one.exchange_bytes * step.executions,
               one.link_bytes * step.executions});
  }
}

void PlaneBuilder::AddControl(const Timeline::Step& step, const std::string& what, std::string_view where) {
  const std::string name = where.empty() ? what : what + ": " + std::string(where);
  const std::uint32_t kind = KindOf(program_, kOperations, name, step.cycles.total(), step.executions, [&] {
    TraceStats stats = CommonStats(name, step.executions, step.cycles);
    stats.push_back({"hlo_category", std::string("control flow")});
    return stats;
  });
  AddEvent(kOperations, kind, step.cycles.total());
  AddPhases(name, step.executions, 0, {step.cycles, 0, 0});
}

void PlaneBuilder::AddPhases(const std::string& operation, std::uint64_t executions, std::size_t number,
                             const SuperstepCost& superstep) {
  const Cycles& all = superstep.cycles;
  if (superstep.link_bytes > 0) {
    const std::uint32_t on_links = KindOf(program_, kIpuLinks, operation, number, executions, [&] {
      TraceStats stats = CommonStats(operation, executions, all);
      stats.push_back({"superstep", static_cast<std::uint64_t>(number)});
      stats.push_back({"bytes_transferred", superstep.link_bytes});
      return stats;
    });
    const std::uint64_t begin = position_ + all.sync;
    AddEvent(kIpuLinks, on_links, run_, begin, begin + all.exchange);
  }
  const std::array<std::pair<const char*, std::uint64_t>, 3> phases = {
      {{"sync", all.sync}, {"exchange", all.exchange}, {"compute", all.compute}}};
  for (const auto& [phase, cycles] : phases) {
    if (cycles == 0) continue;
    const std::string key = std::string(phase) + '\0' + std::to_string(number) + '\0' + operation;
    const auto [entry, is_new] = kinds_.try_emplace({program_, kPhases, key, cycles, executions},
                                                    static_cast<std::uint32_t>(plane_.kinds.size()));
    if (is_new) {
      TraceStats stats = {{"hlo_module", program_->name},
                          {"hlo_op", operation},
                          {"program_id", program_id_},
                          {"superstep", static_cast<std::uint64_t>(number)},
                          {"cycles", cycles}};
      if (phase == std::string_view("exchange"))
        stats.push_back({"exchange_bytes", superstep.exchange_bytes});
      plane_.kinds.push_back({phase, std::move(stats)});
    }
    AddEvent(kPhases, entry->second, cycles);
    position_ += cycles;
  }
}

void PlaneBuilder::AddHostStep(const TracedWork& work, const Timeline::Step& step) {
  if (!work.has_host_link) return;
  std::string_view stream = step.name;
  if (stream.substr(0, work.stream_prefix.size()) == work.stream_prefix)
    stream.remove_prefix(work.stream_prefix.size());
  const std::vector<std::string>& elsewhere = work.streams_from_ipus;
  if (std::find(elsewhere.begin(), elsewhere.end(), stream) != elsewhere.end()) return;
  const char* const what = step.kind == Timeline::Kind::kStreamIn    ? "from host: "
                           : step.kind == Timeline::Kind::kStreamOut ? "to host: "
                                                                     : "host call: ";
  const std::uint32_t kind =
      KindOf(program_, kHostLink, what + TitleOfStream(*program_, stream), step.bytes, step.executions, [&] {
        return TraceStats{{"hlo_module", program_->name},
                          {"program_id", program_id_},
                          {"bytes_transferred", step.bytes},
                          {"cycles", step.host_cycles},
                          {"executions", step.executions}};
      });
  WaitForLink();
  AddEvent(kHostLink, kind, step.host_cycles);
  link_free_at_ = position_ + step.host_cycles;
  if (!step.uses_io_tiles) WaitForLink();
}

}  // namespace jax_ipu
