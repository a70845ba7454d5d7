// Tests when the works of devices are, what their events say, and both file formats.
#include "profiling/trace_planes.h"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "check.h"
#include "profiling/chrome_trace.h"
#include "profiling/xspace.h"

namespace jax_ipu {
namespace {

using ipu_model::Timeline;

// A run of two operations with a transfer before them; the second is in a loop of `trips` trips. `ahead`: the
// transfer is to tiles for input and output, which the second uses.
class TwoOperations : public Timeline {
 public:
  explicit TwoOperations(std::uint64_t trips, bool ahead = false) : trips_(trips), ahead_(ahead) {
    for (const char* name : {"dot_general model.py:12 (loss)", "map"}) {
      ipu_model::OperationCost& cost = report_.operations.emplace_back();
      cost.kind = "popops::map";
      cost.name = name;
      cost.scope = "jit(f)/dense";
      cost.executions = 1;
      cost.cycles = {100, 20, 10};
      cost.flops = 64;
      cost.link_bytes = 8;
    }
  }
  const std::vector<ipu_model::SuperstepCost>& supersteps(std::size_t operation) const override {
    return supersteps_.at(operation);
  }
  const ipu_model::Report& report() const override { return report_; }
  std::uint64_t bytes_accessed(std::size_t) const override { return 48; }
  bool Visit(const std::vector<ipu_model::LoopRun>&, std::uint64_t, std::uint64_t most_steps_of_run,
             const std::function<void(const Step&)>& visit) const override {
    if (most_steps_of_run < 2) return false;
    Step step = {};
    step.kind = Kind::kStreamIn;
    step.name = "in0";
    step.bytes = 1024;
    step.host_cycles = 1000;
    step.uses_io_tiles = ahead_;
    visit(step);
    step = {};
    step.kind = Kind::kOperation;
    step.cycles = {100, 20, 10};
    visit(step);
    step.kind = Kind::kLoopBegin;
    step.executions = trips_;
    step.name = "while";
    visit(step);
    step.kind = Kind::kOperation;
    step.operation = 1;
    step.cycles = ipu_model::Cycles{100, 20, 10} * trips_;
    step.uses_io_tiles = ahead_;
    visit(step);
    step.uses_io_tiles = false;
    step.kind = Kind::kLoopEnd;
    visit(step);
    return true;
  }

 private:
  const std::uint64_t trips_;
  const bool ahead_;
  ipu_model::Report report_;
  // The second operation has two.
  const std::vector<std::vector<ipu_model::SuperstepCost>> supersteps_ = {
      {}, {{{60, 15, 5}, 32, 0}, {{40, 5, 5}, 16, 8}}};
};

std::shared_ptr<TracedWork> NewWork(const Trace& trace, int device, std::int64_t begin_ns) {
  auto work = std::make_shared<TracedWork>();
  work->device_id = device;
  work->version = "ipu2";
  work->run_id = Trace::NextRunId();
  work->begin_ns = trace.begin_ns() + begin_ns;
  work->end_ns = work->begin_ns + 10;
  return work;
}

std::shared_ptr<TracedWork> NewRun(const Trace& trace, int device, std::int64_t begin_ns,
                                   std::uint64_t trips = 3) {
  const std::shared_ptr<TracedWork> work = NewWork(trace, device, begin_ns);
  auto executable = std::make_shared<Executable>();
  executable->name = "jit_f";
  executable->fingerprint = "abc";
  work->executable = std::move(executable);
  work->timeline = std::make_shared<TwoOperations>(trips);
  work->cycles = 130 * (1 + trips);
  return work;
}

const TraceLine* LineOf(const TracePlane& plane, const std::string& name) {
  for (const TraceLine& line : plane.lines) {
    if (line.name == name) return &line;
  }
  return nullptr;
}

std::uint64_t DurationOf(const TracePlane& plane, const std::string& name) {
  std::uint64_t sum = 0;
  if (const TraceLine* line = LineOf(plane, name)) {
    for (const TraceEvent& event : line->events) sum += event.duration_ps;
  }
  return sum;
}

const TraceStat* StatOf(const TraceStats& stats, const std::string& name) {
  for (const TraceStat& stat : stats) {
    if (stat.name == name) return &stat;
  }
  return nullptr;
}

// At 1.33 GHz, with rounding to picoseconds.
bool AreCycles(std::uint64_t picoseconds, std::uint64_t cycles, double clock_hz) {
  const double expected = static_cast<double>(cycles) * 1e12 / clock_hz;
  return static_cast<double>(picoseconds) > expected - 3 && static_cast<double>(picoseconds) < expected + 3;
}

double ClockOf(const TracePlane& plane) {
  return 1e3 * static_cast<double>(std::get<std::uint64_t>(StatOf(plane.stats, "clock_rate")->value));
}

// The fields of a protobuf message.
class Fields {
 public:
  explicit Fields(std::string_view data) {
    while (!data.empty()) {
      const std::uint64_t tag = Varint(&data);
      switch (tag & 7) {
        case 0:
          numbers_.emplace(tag >> 3, Varint(&data));
          break;
        case 1:
          data.remove_prefix(8);
          break;
        default: {
          const std::size_t size = Varint(&data);
          texts_.emplace(tag >> 3, data.substr(0, size));
          data.remove_prefix(size);
        }
      }
    }
  }
  std::uint64_t Number(int field) const { return numbers_.find(static_cast<std::uint64_t>(field))->second; }
  std::vector<std::string_view> Texts(int field) const {
    std::vector<std::string_view> found;
    const auto [begin, end] = texts_.equal_range(static_cast<std::uint64_t>(field));
    for (auto it = begin; it != end; ++it) found.push_back(it->second);
    return found;
  }

 private:
  static std::uint64_t Varint(std::string_view* data) {
    std::uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(data->front());
      data->remove_prefix(1);
      value |= std::uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return value;
    }
  }
  std::multimap<std::uint64_t, std::uint64_t> numbers_;
  std::multimap<std::uint64_t, std::string_view> texts_;
};

}  // namespace
}  // namespace jax_ipu

using namespace jax_ipu;

TEST(OperationsPhasesTransfersAndLoops) {
  Trace trace;
  Trace::Add(NewRun(trace, 3, 500));
  trace.Stop();
  const std::vector<TracePlane> planes = MakePlanes(trace, {});
  CHECK_EQ(planes.size(), 1u);
  const TracePlane& plane = planes[0];
  CHECK_EQ(plane.name, "/device:CUSTOM:IPU:3");
  CHECK_EQ(std::get<std::string>(StatOf(plane.stats, "clock_domain")->value), "simulated");
  const double clock = ClockOf(plane);
  CHECK_EQ(LineOf(plane, "XLA Modules")->events.size(), 1u);
  CHECK_EQ(LineOf(plane, "XLA Modules")->events[0].begin_ps, 500000u);
  CHECK(AreCycles(DurationOf(plane, "XLA Modules"), 1000 + 4 * 130, clock));
  CHECK(AreCycles(DurationOf(plane, "XLA Ops"), 4 * 130, clock));
  CHECK(AreCycles(DurationOf(plane, "BSP phases"), 4 * 130, clock));
  CHECK(AreCycles(DurationOf(plane, "Host link"), 1000, clock));
  CHECK(AreCycles(DurationOf(plane, "IPU-Links"), 20 + 3 * 5, clock));
  CHECK(AreCycles(DurationOf(plane, "Loops"), 3 * 130, clock));
  CHECK_EQ(LineOf(plane, "Steps") == nullptr, true);
  std::string phases;
  for (const TraceEvent& event : LineOf(plane, "BSP phases")->events)
    phases += plane.kinds[event.kind].name[0];
  CHECK_EQ(phases, "secsecsec");
  std::uint64_t end = LineOf(plane, "BSP phases")->events[0].begin_ps;
  for (const TraceEvent& event : LineOf(plane, "BSP phases")->events) {
    CHECK(event.begin_ps >= end && event.begin_ps <= end + 1);
    end = event.begin_ps + event.duration_ps;
  }
  const auto stat_of_phase = [&plane](std::size_t i, const char* name) {
    const TraceEvent& event = LineOf(plane, "BSP phases")->events[i];
    return std::get<std::uint64_t>(StatOf(plane.kinds[event.kind].stats, name)->value);
  };
  CHECK_EQ(stat_of_phase(5, "superstep"), 0u);
  CHECK_EQ(stat_of_phase(8, "superstep"), 1u);
  CHECK_EQ(stat_of_phase(8, "cycles"), 3u * 40);
  CHECK_EQ(stat_of_phase(7, "exchange_bytes"), 3u * 16);

  const std::vector<TraceEvent>& events = LineOf(plane, "XLA Ops")->events;
  const TraceEventKind &first = plane.kinds[events[0].kind], &folded = plane.kinds[events[1].kind];
  CHECK_EQ(first.name, "dot_general.0");
  CHECK_EQ(std::get<std::string>(StatOf(first.stats, "source")->value), "model.py:12");
  CHECK_EQ(std::get<std::string>(StatOf(first.stats, "source_stack")->value), "model.py:12 (loss)");
  CHECK_EQ(std::get<std::string>(StatOf(first.stats, "tf_op")->value), "jit(f)/dense:");
  CHECK_EQ(std::get<std::uint64_t>(StatOf(first.stats, "flops")->value), 64u);
  CHECK_EQ(std::get<std::uint64_t>(StatOf(folded.stats, "flops")->value), 3 * 64u);
  CHECK_EQ(std::get<std::uint64_t>(StatOf(folded.stats, "bytes_accessed")->value), 3 * 48u);
  CHECK(StatOf(folded.stats, "source") == nullptr);
  CHECK(StatOf(plane.event_stats[events[0].statistics], "run_id") != nullptr);
}

TEST(WorksOfADeviceFollowEachOther) {
  Trace trace;
  for (const std::int64_t begin : {100, 101, 5000000}) Trace::Add(NewRun(trace, 0, begin));
  trace.Stop();
  const TracePlane plane = MakePlanes(trace, {})[0];
  const std::vector<TraceEvent>& runs = LineOf(plane, "XLA Modules")->events;
  CHECK_EQ(runs.size(), 3u);
  CHECK_EQ(runs[0].begin_ps, 100000u);
  CHECK_EQ(runs[1].begin_ps, runs[0].begin_ps + runs[0].duration_ps);  // the host was earlier
  CHECK_EQ(runs[2].begin_ps, 5000000000u);                             // the host was later
}

TEST(ReplicasThatCommunicateAreSimultaneous) {
  Trace trace;
  // The second launch begins on device 1 before the first has begun on device 0.
  std::vector<std::shared_ptr<TracedWork>> works;
  for (int launch = 0; launch < 2; ++launch) {
    for (int device = 0; device < 2; ++device) {
      works.push_back(NewRun(trace, device, 1000 + 100 * launch + 5000 * (1 - device)));
      works.back()->run_id = 1000u + static_cast<unsigned>(launch);
      works.back()->meets_others = true;
    }
  }
  for (const auto& work : works) Trace::Add(work);
  Trace::Add(NewRun(trace, 1, 0));
  trace.Stop();
  const std::vector<TracePlane> planes = MakePlanes(trace, {});
  const std::vector<TraceEvent>&a = LineOf(planes[0], "XLA Modules")->events,
        &b = LineOf(planes[1], "XLA Modules")->events;
  CHECK_EQ(a.size(), 2u);
  CHECK_EQ(b.size(), 3u);
  CHECK_EQ(b[0].begin_ps, 0u);
  for (int launch = 0; launch < 2; ++launch)
    CHECK_EQ(a[static_cast<std::size_t>(launch)].begin_ps, b[static_cast<std::size_t>(launch) + 1].begin_ps);
  CHECK_EQ(a[0].begin_ps, 6000000u);
}

TEST(OperationsRunBesideTransfersToTilesForInputAndOutput) {
  Trace trace;
  const std::shared_ptr<TracedWork> work = NewRun(trace, 0, 0);
  work->timeline = std::make_shared<TwoOperations>(3, true);
  Trace::Add(work);
  trace.Stop();
  const TracePlane plane = MakePlanes(trace, {})[0];
  const double clock = ClockOf(plane);
  const std::vector<TraceEvent>& operations = LineOf(plane, "XLA Ops")->events;
  const std::uint64_t begin = LineOf(plane, "XLA Modules")->events[0].begin_ps;
  CHECK_EQ(operations[0].begin_ps, begin);
  CHECK(AreCycles(operations[1].begin_ps - begin, 1000, clock));
  CHECK(AreCycles(DurationOf(plane, "Host link"), 1000, clock));
  CHECK(AreCycles(DurationOf(plane, "XLA Modules"), 1000 + 3 * 130, clock));
}

TEST(TransfersOutsideRunsAndStreamsFromOtherIpus) {
  Trace trace;
  auto work = NewWork(trace, 0, 0);
  work->transfers = {{TracedTransfer::Kind::kToHost, "state0.out", 4096, 0},
                     {TracedTransfer::Kind::kFromIpu, "", 4096, 77}};
  Trace::Add(work);
  auto run = NewRun(trace, 0, 10);
  run->streams_from_ipus = {"in0"};
  Trace::Add(run);
  trace.Stop();
  const TracePlane plane = MakePlanes(trace, {})[0];
  const TraceLine *host = LineOf(plane, "Host link"), *links = LineOf(plane, "IPU-Links");
  CHECK_EQ(host->events.size(), 1u);
  CHECK_EQ(plane.kinds[host->events[0].kind].name, "to host: state0.out");
  CHECK_EQ(plane.kinds[links->events[0].kind].name, "copy from IPU");
  CHECK(AreCycles(links->events[0].duration_ps, 77, ClockOf(plane)));
}

TEST(FailedRunsAndRunsWithTooManySteps) {
  Trace trace;
  auto failed = NewRun(trace, 0, 0);
  failed->timeline = nullptr;
  failed->error = "broken";
  Trace::Add(failed);
  for (int i = 0; i < 3; ++i) Trace::Add(NewRun(trace, 0, 100));
  trace.Stop();
  PlaneOptions options;
  options.most_steps = 5;  // enough for the first run, of three supersteps: then two are left, which are not
  const TracePlane plane = MakePlanes(trace, options)[0];
  const std::vector<TraceEvent>& runs = LineOf(plane, "XLA Modules")->events;
  CHECK_EQ(runs.size(), 4u);
  CHECK_EQ(runs[0].duration_ps, 0u);
  CHECK_EQ(std::get<std::string>(StatOf(plane.event_stats[runs[0].statistics], "error")->value), "broken");
  CHECK_EQ(LineOf(plane, "XLA Ops")->events.size(), 2u);
  CHECK_EQ(std::get<std::uint64_t>(StatOf(plane.stats, "runs_without_operations")->value), 2u);
  CHECK(AreCycles(runs[3].duration_ps, 4 * 130, ClockOf(plane)));
  const std::vector<std::string> warnings = WarningsOf({plane});
  CHECK_EQ(warnings.size(), 1u);
  CHECK(warnings[0].find("2 runs are single events") != std::string::npos);
  CHECK_EQ(std::string(Fields(SerializeXSpace({plane}, 0)).Texts(3)[0]), warnings[0]);
}

TEST(PlanesForTheToolsOfTpus) {
  Trace trace;
  Trace::Add(NewRun(trace, 0, 0));
  trace.Stop();
  PlaneOptions options;
  options.as_tpu = true;
  const TracePlane plane = MakePlanes(trace, options)[0];
  CHECK_EQ(plane.name, "/device:TPU:0");
  CHECK_EQ(LineOf(plane, "Steps")->events.size(), 1u);
  for (const TraceEvent& event : LineOf(plane, "XLA Ops")->events)
    CHECK(StatOf(plane.event_stats[event.statistics], "group_id") != nullptr);
}

TEST(StepsAreNumberedInEachTrace) {
  PlaneOptions options;
  options.as_tpu = true;
  for (int i = 0; i < 2; ++i) {
    Trace trace;
    Trace::Add(NewRun(trace, 0, 0));
    trace.Stop();
    const TracePlane plane = MakePlanes(trace, options)[0];
    const TraceEvent& step = LineOf(plane, "Steps")->events[0];
    CHECK_EQ(plane.kinds[step.kind].name, "1");
    CHECK_EQ(std::get<std::int64_t>(StatOf(plane.event_stats[step.statistics], "group_id")->value), 1);
  }
}

TEST(OnlyWorksOfTheRecordingAreInIt) {
  CHECK(!Trace::IsActive());
  auto first = std::make_unique<Trace>();
  const auto early = NewWork(*first, 0, 0);
  early->begin_ns = first->begin_ns() - 1;
  Trace::Add(early);
  CHECK_EQ(first->works().size(), 0u);
  Trace second;
  const auto both = NewWork(second, 0, 1000000000);
  Trace::Add(both);
  second.Stop();
  second.Stop();
  CHECK(Trace::IsActive());
  Trace::Add(both);
  CHECK_EQ(first->works().size(), 2u);
  CHECK_EQ(second.works().size(), 1u);
  first.reset();
  CHECK(!Trace::IsActive());
  Trace::Add(both);
  CHECK_EQ(second.works().size(), 1u);
}

TEST(RecordingsBeginAndEndDuringWorks) {
  std::vector<std::thread> threads;
  for (int device = 0; device < 4; ++device) {
    threads.emplace_back([device] {
      for (int i = 0; i < 200; ++i) {
        Trace own;
        if (Trace::IsActive()) Trace::Add(NewRun(own, device, 0));
        own.Stop();
        CHECK(!own.works().empty());
        MakePlanes(own, {});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(!Trace::IsActive());
}

TEST(XSpaceHasTheFieldsOfXla) {
  Trace trace;
  Trace::Add(NewRun(trace, 2, 7));
  trace.Stop();
  const std::string data = SerializeXSpace(MakePlanes(trace, {}), trace.begin_ns());
  const Fields space(data);
  CHECK_EQ(space.Texts(1).size(), 1u);
  const Fields plane(space.Texts(1)[0]);
  CHECK_EQ(std::string(plane.Texts(2)[0]), "/device:CUSTOM:IPU:2");
  std::map<std::uint64_t, std::string> kinds, stats;
  for (const std::string_view entry : plane.Texts(4)) {
    const Fields kind(Fields(entry).Texts(2)[0]);
    kinds[kind.Number(1)] = kind.Texts(2)[0];
  }
  for (const std::string_view entry : plane.Texts(5)) {
    const Fields stat(Fields(entry).Texts(2)[0]);
    stats[stat.Number(1)] = stat.Texts(2)[0];
  }
  bool found = false;
  for (const std::string_view text : plane.Texts(3)) {
    const Fields line(text);
    CHECK_EQ(line.Number(3), static_cast<std::uint64_t>(trace.begin_ns()));
    if (line.Texts(2)[0] != "XLA Ops") continue;
    const Fields event(line.Texts(4)[0]);
    CHECK_EQ(kinds[event.Number(1)], "dot_general.0");
    CHECK(event.Number(2) > 7000u);
    for (const std::string_view field : event.Texts(4)) {
      const Fields stat(field);
      if (stats[stat.Number(1)] == "source") CHECK_EQ(stats[stat.Number(7)], "model.py:12");
      found = found || stats[stat.Number(1)] == "source";
    }
  }
  CHECK(found);
  CHECK_EQ(SerializeXSpace({}, 0), "");
}

TEST(ChromeTraceIsJson) {
  Trace trace;
  const auto run = NewRun(trace, 0, 1);
  auto executable = std::make_shared<Executable>(*run->executable);
  executable->name = "quote \" back \\ line \n byte \xff";
  run->executable = executable;
  Trace::Add(run);
  trace.Stop();
  const std::string text = SerializeChromeTrace(MakePlanes(trace, {}));
  CHECK(text.find("quote \\\" back \\\\ line \\u000a byte ?") != std::string::npos);
  CHECK(text.find("\"name\":\"dot_general.0\",\"ts\":") != std::string::npos);
  CHECK_EQ(text.substr(0, 2), "{\"");
  CHECK_EQ(text.substr(text.size() - 3), "]}\n");
  CHECK_EQ(SerializeChromeTrace({}), "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n]}\n");
}
