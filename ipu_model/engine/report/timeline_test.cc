// Tests that the steps of a run are in program order, and that their cycles are those of the run. An Add of
// one element costs 11 cycles, a decision one cycle of exchange and one sync.
#include "ipu_model/Timeline.hpp"

#include <cstdint>
#include <string>
#include <vector>

#include "check.h"
#include "core/target/target_model.h"
#include "engine/report/device_report.h"
#include "engine/tile/tile_engine.h"
#include "testing/toy_operations.h"

using namespace ipu_model;
using toy::Builder;
using toy::Countdown;
using Node = std::shared_ptr<ProgramNode>;
using Kind = Timeline::Kind;

namespace {

// What a run of program 0 shows.
struct Shown {
  std::string steps;             // a character for each step, see Letter
  std::uint64_t executions = 0;  // of operations
  Cycles cycles;
  std::uint64_t bytes_in = 0, host_cycles = 0;
  std::uint64_t counted = 0;  // cycles that the engine counts
  bool complete = false;
};

char Letter(Kind kind) {
  switch (kind) {
    case Kind::kOperation:
      return 'o';
    case Kind::kDecision:
      return '?';
    case Kind::kOther:
      return '*';
    case Kind::kStreamIn:
      return '<';
    case Kind::kStreamOut:
      return '>';
    case Kind::kHostCall:
      return '!';
    case Kind::kLoopBegin:
      return '(';
    case Kind::kLoopEnd:
      return ')';
    case Kind::kScopeBegin:
      return '{';
    case Kind::kScopeEnd:
      return '}';
  }
  return ' ';
}

// Entry i of `values` goes to stream i.
Shown RunOf(Builder& b, std::vector<std::int32_t> values, std::uint64_t most_steps = 1000,
            std::uint64_t most_of_run = 100000) {
  b.program->report = Analyse(*b.program);
  TileEngine engine(b.program);
  engine.Load();
  for (std::size_t i = 0; i < values.size(); ++i)
    engine.ConnectStream(static_cast<std::uint32_t>(i), &values[i], &values[i] + 1);
  engine.Run(0);
  Shown shown;
  shown.counted = engine.last_run_cycles();
  const auto timeline = MakeTimeline(poplar::Executable(b.program));
  shown.complete =
      timeline->Visit(engine.last_run_loops(), most_steps, most_of_run, [&shown](const Timeline::Step& step) {
        shown.steps += Letter(step.kind);
        if (step.kind == Kind::kOperation) shown.executions += step.executions;
        shown.cycles += step.cycles;
        shown.host_cycles += step.host_cycles;
        if (step.kind == Kind::kStreamIn) shown.bytes_in += step.bytes;
      });
  return shown;
}

}  // namespace

TEST(OperationsAndTransfersInProgramOrder) {
  Builder b(2);
  const View x = b.Split("x", 1, 1), y = b.Split("y", 1, 1);
  b.Main({b.Transfer("x", x, true), Builder::Do(toy::Add({x, x}, y)), Builder::Do(toy::Add({y}, x))});
  const Shown shown = RunOf(b, {3});
  CHECK_EQ(shown.steps, "<oo");
  CHECK_EQ(shown.cycles.total(), shown.counted);
  CHECK_EQ(shown.cycles.compute, 22u);
  CHECK_EQ(shown.cycles.sync, 0u);
  CHECK_EQ(shown.bytes_in, 4u);
  CHECK_EQ(shown.host_cycles, b.program->report.host_link_cycles);
  const auto timeline = MakeTimeline(poplar::Executable(b.program));
  CHECK_EQ(timeline->bytes_accessed(0), 12u);
  CHECK_EQ(timeline->bytes_accessed(1), 8u);
}

TEST(LoopsAreUnrolledOrFolded) {
  for (const std::int32_t trips : {0, 1, 3, 50}) {
    for (const std::uint64_t most_steps : {1000u, 10u}) {
      Builder b(2);
      const View n = b.Split("n", 1, 1);
      b.Main({b.Transfer("n", n, true), Countdown(b, n, {})});
      const Shown shown = RunOf(b, {trips}, most_steps);
      CHECK_EQ(shown.cycles.total(), shown.counted);
      CHECK_EQ(shown.executions, static_cast<std::uint64_t>(2 * trips + 1));
      if (trips == 0) CHECK_EQ(shown.steps, "<(o?)");
      if (trips == 1) CHECK_EQ(shown.steps, "<(o?oo?)");
      if (trips == 50 && most_steps == 10) CHECK_EQ(shown.steps, "<(o?o)");
      if (trips == 50 && most_steps == 1000) CHECK_EQ(shown.steps.size(), 3u + 50 * 3 + 2);
    }
  }
}

TEST(RepeatedOperations) {
  for (const std::uint64_t most_steps : {1000u, 5u}) {
    Builder b(2);
    const View x = b.Split("x", 1, 1);
    b.Main({Builder::Repeat(3, Builder::Repeat(4, Builder::Do(toy::Add({x}, x)))),
            Builder::Repeat(0, Builder::Do(toy::Add({x}, x)))});
    const Shown shown = RunOf(b, {}, most_steps);
    CHECK_EQ(shown.cycles.total(), shown.counted);
    CHECK_EQ(shown.executions, 12u);
    CHECK_EQ(shown.steps, most_steps == 5 ? "((o))" : "((oooo)(oooo)(oooo))");
  }
}

// Runs m times a function that counts k (set from `start` before) down to 0.
TEST(LoopsInLoopsAndFunctions) {
  for (const std::int32_t m : {0, 1, 3}) {
    for (const std::uint64_t most_steps : {1000u, 20u, 4u}) {
      Builder b(2);
      const View n = b.Split("n", 1, 1), k = b.Split("k", 1, 1), start = b.Split("start", 1, 1);
      auto count_k = Countdown(b, k, {});
      b.program->functions.push_back(
          Builder::Node(ProgramKind::kSequence, {Builder::Do(toy::Add({start}, k)), count_k}));
      auto call = [] { return Builder::Node(ProgramKind::kCall); };
      b.Main({b.Transfer("n", n, true), b.Transfer("start", start, true), call(), Countdown(b, n, {call()})});
      const Shown shown = RunOf(b, {m, 4}, most_steps);
      CHECK_EQ(shown.cycles.total(), shown.counted);
      // Of each call: 1 + 4 + 5; of the outer loop: m + m + 1.
      CHECK_EQ(shown.executions, static_cast<std::uint64_t>((m + 1) * 10 + 2 * m + 1));
    }
  }
}

TEST(ConditionalsHaveTheBranchThatTheReportCounts) {
  for (const std::int32_t which : {0, 1}) {
    Builder b(2);
    const View p = b.Split("p", 1, 1), x = b.Split("x", 1, 1);
    const auto branch = [&x](int n) {
      std::vector<Node> adds;
      for (int i = 0; i < n; ++i) adds.push_back(Builder::Do(toy::Add({x}, x)));
      return Builder::Node(ProgramKind::kSequence, std::move(adds));
    };
    b.Main({b.Transfer("p", p, true), Builder::Node(ProgramKind::kIf, {branch(1), branch(3)}, {p})});
    const Shown shown = RunOf(b, {which});
    CHECK_EQ(shown.steps, "<?ooo");
    CHECK_EQ(shown.cycles.total(), shown.counted);
  }
}

TEST(LoopsOfBranchesThatDoNotCount) {
  Builder b(2);
  const View p = b.Split("p", 1, 1), n = b.Split("n", 1, 1), x = b.Split("x", 1, 1);
  std::vector<Node> adds;
  for (int i = 0; i < 29; ++i) adds.push_back(Builder::Do(toy::Add({x}, x)));
  b.Main({b.Transfer("p", p, true), b.Transfer("n", n, true),
          Builder::Node(ProgramKind::kIf,
                        {Countdown(b, n, {}), Builder::Node(ProgramKind::kSequence, std::move(adds))}, {p})});
  const Shown shown = RunOf(b, {1, 20});  // the loop runs, the other branch is more expensive with one trip
  CHECK_EQ(shown.steps, "<<?" + std::string(29, 'o') + "*");
  CHECK_EQ(shown.cycles.total(), shown.counted);
}

TEST(TooManyStepsAreLeftOut) {
  Builder b(2);
  const View x = b.Split("x", 1, 1);
  b.Main({Builder::Repeat(100, Builder::Do(toy::Add({x}, x)))});
  CHECK(RunOf(b, {}, 1000, 1000).complete);
  CHECK(!RunOf(b, {}, 1000, 50).complete);
}
