// Tests that cycles follow the trip counts of loops. An Add costs 10 cycles, one cycle per element of a tile
// (toy), and no sync. A loop decision costs one cycle of exchange and one sync.
#include "engine/run/executed_cycles.h"

#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "check.h"
#include "core/target/target_model.h"
#include "engine/report/device_report.h"
#include "engine/tile/tile_engine.h"
#include "ipu_model/Model.hpp"
#include "ipu_model/Timeline.hpp"
#include "poplar/Engine.hpp"
#include "popops/ElementWise.hpp"
#include "testing/toy_operations.h"

using namespace ipu_model;
using poplar::program::Copy;
using poplar::program::RepeatWhileTrue;
using poplar::program::Sequence;
using toy::Builder;
using toy::Countdown;

namespace {

std::uint64_t Sync() { return FindTargetModel("ipu2").sync_cycles; }
std::uint64_t Add() { return 11; }  // of one element
std::uint64_t Decision() { return 1 + Sync(); }

// Returns the cycles of program 0 on the tile engine; entry i of `values` goes to stream i.
std::uint64_t CyclesOf(Builder& b, std::vector<std::int32_t> values) {
  b.program->report = Analyse(*b.program);
  TileEngine engine(b.program);
  engine.Load();
  for (std::size_t i = 0; i < values.size(); ++i)
    engine.ConnectStream(static_cast<std::uint32_t>(i), &values[i], &values[i] + 1);
  engine.Run(0);
  const std::uint64_t cycles = engine.last_run_cycles();
  engine.Run(0);  // starts from zero again
  CHECK_EQ(engine.last_run_cycles(), cycles);
  return cycles;
}

}  // namespace

TEST(TripsOfALoop) {
  std::vector<std::uint64_t> cycles;
  for (const std::int32_t trips : {0, 1, 10, 20}) {
    Builder b(2);
    const View n = b.Split("n", 1, 1);
    b.Main({b.Transfer("n", n, true), Countdown(b, n, {})});
    const auto t = static_cast<std::uint64_t>(trips);
    cycles.push_back(CyclesOf(b, {trips}));
    CHECK_EQ(cycles.back(), t * Add() + (t + 1) * (Add() + Decision()));
  }
  CHECK_EQ(cycles[3] - cycles[2], 10 * Add() + 10 * (Add() + Decision()));
}

TEST(LoopsInLoopsAndFunctions) {
  // Runs m times a function that counts k (set from `start` before) down to 0.
  for (const std::int32_t m : {0, 1, 3}) {
    Builder b(2);
    const View n = b.Split("n", 1, 1), k = b.Split("k", 1, 1), start = b.Split("start", 1, 1);
    auto count_k = Countdown(b, k, {});
    b.program->functions.push_back(
        Builder::Node(ProgramKind::kSequence, {Builder::Do(toy::Add({start}, k)), count_k}));
    auto call = [] { return Builder::Node(ProgramKind::kCall); };
    b.Main({b.Transfer("n", n, true), b.Transfer("start", start, true), call(), Countdown(b, n, {call()})});
    const std::uint64_t inner = Add() + 4 * Add() + 5 * (Add() + Decision());
    const auto t = static_cast<std::uint64_t>(m);
    CHECK_EQ(CyclesOf(b, {m, 4}), inner + t * (Add() + inner) + (t + 1) * (Add() + Decision()));
  }
}

// Two programs of one graph count the trips of their own loops, and come back from their stored form.
TEST(EveryMainProgramHasItsCycles) {
  poplar::Graph graph(poplar::Target::createIPUTarget(1, 4, "ipu2"));
  const poplar::Tensor x = graph.addVariable(poplar::FLOAT, {64}, "x");
  graph.setTileMapping(x, 1);
  const std::int32_t one_value = 1, zero_value = 0;
  const poplar::Tensor zero = graph.addConstant(poplar::INT, {}, &zero_value, "zero");
  const poplar::Tensor one = graph.addConstant(poplar::INT, {}, &one_value, "one");
  graph.setTileMapping(zero, 0);
  graph.setTileMapping(one, 0);
  const auto countdown = [&](const std::string& name, unsigned additions) {
    const poplar::Tensor n = graph.addVariable(poplar::INT, {}, name);
    graph.setTileMapping(n, 0);
    const auto in = graph.addHostToDeviceFIFO(name, poplar::INT, 1);
    Sequence condition, body;
    const poplar::Tensor more = popops::gt(graph, n, zero, condition);
    for (unsigned i = 0; i < additions; ++i) popops::addInPlace(graph, x, x, body);
    popops::subInPlace(graph, n, one, body);
    return Sequence({Copy(in, n), RepeatWhileTrue(condition, more, body)});
  };
  const std::vector<poplar::program::Program> programs = {countdown("a", 1), Sequence({Copy(x, x)}),
                                                          countdown("b", 5)};
  ipu_model::TilePlanCache plans;
  CHECK_THROWS(poplar::poplar_error, ipu_model::CompileGraph(graph, programs, "two", &plans, {3}));
  const poplar::Executable made = ipu_model::CompileGraph(graph, programs, "two", &plans, {2});
  CHECK_THROWS(poplar::poplar_error, ipu_model::ReportOf(made, 1));
  std::stringstream stored;
  made.serialize(stored);
  const poplar::Executable back = poplar::Executable::deserialize(stored);
  for (const poplar::Executable& executable : {made, back}) {
    for (const char* execution : {"fast", "tile"}) {
      poplar::Engine engine(executable, {{"execution", execution}});
      std::int32_t trips[] = {3, 7};
      engine.load();
      engine.connectStream("a", trips);
      engine.connectStream("b", trips + 1);
      for (const unsigned main : {2u, 0u, 2u}) {
        const Report& report = ipu_model::ReportOf(executable, main);
        CHECK_EQ(report.loops.size(), 1u);
        const auto t = static_cast<std::uint64_t>(main == 0 ? 3 : 7);
        engine.run(main);
        CHECK_EQ(ipu_model::LastRunCycles(engine),
                 (t + 1) * report.loops[0].condition.total() + t * report.loops[0].body.total());
        const std::vector<ipu_model::LoopRun> loops = ipu_model::LastRunLoops(engine);
        CHECK_EQ(loops.size(), 1u);
        CHECK_EQ(loops.front().trips, t);
      }
      engine.run(1);
      CHECK_EQ(ipu_model::LastRunCycles(engine), 0u);
    }
    CHECK(ipu_model::ReportOf(executable, 2).loops[0].body.total() >
          ipu_model::ReportOf(executable, 0).loops[0].body.total());
    CHECK_EQ(ipu_model::ReportOf(executable, 2).max_tile_bytes,
             ipu_model::ReportOf(executable).max_tile_bytes);
  }
}

// while (n > 0) { x += x; n -= 1 }, then a separate program that changes nothing.
TEST(BothEnginesAgree) {
  poplar::Graph graph(poplar::Target::createIPUTarget(1, 4, "ipu2"));
  const poplar::Tensor n = graph.addVariable(poplar::INT, {}, "n"),
                       x = graph.addVariable(poplar::FLOAT, {64});
  graph.setTileMapping(n, 0);
  graph.setTileMapping(x, 1);
  const std::int32_t numbers[] = {0, 1};
  const poplar::Tensor zero = graph.addConstant(poplar::INT, {}, numbers, "zero");
  const poplar::Tensor one = graph.addConstant(poplar::INT, {}, numbers + 1, "one");
  graph.setTileMapping(zero, 0);
  graph.setTileMapping(one, 0);
  const auto in = graph.addHostToDeviceFIFO("n", poplar::INT, 1);
  Sequence condition, body;
  const poplar::Tensor more = popops::gt(graph, n, zero, condition);
  popops::addInPlace(graph, x, x, body);
  popops::subInPlace(graph, n, one, body);
  const Sequence main({Copy(in, n), RepeatWhileTrue(condition, more, body)});
  const poplar::Executable executable = poplar::compileGraph(graph, {main, Sequence({Copy(x, x)})});
  const Report& report = ipu_model::ReportOf(executable);
  CHECK_EQ(report.loops.size(), 1u);
  const std::uint64_t test = report.loops[0].condition.total(), trip = report.loops[0].body.total();
  CHECK(test > 0 && trip > 2 * Sync());
  for (const char* execution : {"fast", "tile"}) {
    poplar::Engine engine(executable, {{"execution", execution}});
    engine.load();
    std::int32_t trips = 0;
    engine.connectStream("n", &trips);
    for (const std::int32_t count : {0, 10, 20}) {
      trips = count;
      engine.run(0);
      const auto t = static_cast<std::uint64_t>(count);
      CHECK_EQ(ipu_model::LastRunCycles(engine), (t + 1) * test + t * trip);
    }
    engine.run(1);  // the report is that of program 0
    CHECK_EQ(ipu_model::LastRunCycles(engine), 0u);
  }
}
