// Programs that do nothing cost nothing, in every account of a program.
#include "check.h"
#include "core/target/target_model.h"
#include "engine/program/compiled_program.h"
#include "ipu_model/Model.hpp"
#include "ipu_model/Profile.hpp"
#include "ipu_model/Timeline.hpp"
#include "poplar/Engine.hpp"
#include "poplar/Graph.hpp"
#include "poplar/Program.hpp"
#include "popops/ElementWise.hpp"
#include "poputil/TileMapping.hpp"

namespace ipu_model {
namespace {

using poplar::program::Copy;
using poplar::program::Execute;
using poplar::program::Sequence;

struct Accounts {
  Report report;
  std::size_t profiled = 0, visited = 0;
  std::uint64_t visited_cycles = 0;
  std::vector<float> values;
};

// x = 2 x three times, and with `empty` what does nothing between and around.
Accounts Of(bool empty, const char* execution) {
  poplar::Graph graph(poplar::Target::createIPUTarget(1, 4, "ipu2"));
  const poplar::Tensor x = graph.addVariable(poplar::FLOAT, {8}, "x");
  const poplar::Tensor none = graph.addVariable(poplar::FLOAT, {0}, "none");
  const poplar::Tensor nothing = graph.addVariable(poplar::FLOAT, {0, 3}, "nothing");
  poputil::mapTensorLinearly(graph, x, 1, 1);
  for (const poplar::Tensor& t : {none, nothing}) graph.setTileMapping(t, 0);
  graph.createHostWrite("x", x);
  graph.createHostRead("x out", x);
  const auto do_nothing = [&](Sequence* prog) {
    if (!empty) return;
    prog->add(Copy(none, x.slice(0, 0)));
    prog->add(Execute(graph.addComputeSet("no vertices")));
    prog->add(Sequence());
    prog->add(Sequence({Sequence(), Copy(x.slice(4, 4), none)}));
    popops::addInPlace(graph, nothing, nothing, *prog, "add");
    prog->add(poplar::program::Repeat(5, Copy(none, x.slice(2, 2))));
  };
  Sequence body, main;
  do_nothing(&body);
  popops::addInPlace(graph, x, x, body, "double");
  do_nothing(&body);
  do_nothing(&main);
  main.add(poplar::program::Repeat(3, body));
  if (empty) main.add(poplar::program::Call(graph.addFunction(Copy(none, x.slice(1, 1)))));
  const poplar::Executable executable = poplar::compileGraph(graph, {main});
  Accounts a;
  a.report = ReportOf(executable);
  a.profiled = ProfileOf(executable).steps.operation.size();
  MakeTimeline(executable)->Visit({}, 1000, 1000, [&](const Timeline::Step& step) {
    if (step.kind != Timeline::Kind::kOperation) return;
    ++a.visited;
    a.visited_cycles += step.cycles.total();
  });
  poplar::Engine engine(executable, {{"execution", execution}});
  engine.load();
  std::vector<float> values = {1, 2, 3, 4, 5, 6, 7, 8};
  engine.writeTensor("x", values.data(), values.data() + values.size());
  engine.run();
  a.values.resize(values.size());
  engine.readTensor("x out", a.values.data(), a.values.data() + a.values.size());
  return a;
}

TEST(WhatDoesNothingIsNoSuperstep) {
  for (const char* execution : {"fast", "tile"}) {
    const Accounts without = Of(false, execution), with = Of(true, execution);
    CHECK(without.report.cycles.total() > 0);
    CHECK_EQ(with.report.cycles.total(), without.report.cycles.total());
    CHECK_EQ(with.report.cycles.sync, 0u);
    CHECK_EQ(with.report.operations.size(), 1u);
    CHECK_EQ(with.report.total_bytes, without.report.total_bytes);
    CHECK_EQ(with.profiled, without.profiled);
    CHECK_EQ(with.visited, 3u);
    CHECK_EQ(with.visited_cycles, with.report.cycles.total());
    CHECK(with.values == without.values && with.values[7] == 64);
  }
}

TEST(AProgramOfNothing) {
  poplar::Graph graph(poplar::Target::createIPUTarget(1, 4, "ipu2"));
  const poplar::Tensor none = graph.addVariable(poplar::FLOAT, {0}, "none");
  graph.setTileMapping(none, 0);
  const poplar::Executable executable = poplar::compileGraph(graph, {Copy(none, none)});
  CHECK_EQ(ReportOf(executable).cycles.total(), 0u);
  poplar::Engine engine(executable);
  engine.load();
  engine.run();
}

}  // namespace
}  // namespace ipu_model
