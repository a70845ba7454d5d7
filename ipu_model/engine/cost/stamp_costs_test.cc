// Cycle stamps in loops with a fixed and with an unknown trip count, and where they are refused.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "check.h"
#include "engine/fast/fast_engine.h"
#include "engine/tile/tile_engine.h"
#include "hlo/CycleStamp.hpp"
#include "hlo/Elementwise.hpp"
#include "ipu_model/Model.hpp"
#include "poplar/Engine.hpp"
#include "poplar/Graph.hpp"
#include "poplar/exceptions.hpp"

using namespace ipu_model;
using poplar::Graph;
using poplar::Tensor;
using poplar::program::Call;
using poplar::program::Copy;
using poplar::program::If;
using poplar::program::Repeat;
using poplar::program::RepeatWhileTrue;
using poplar::program::Sequence;

namespace {

struct Program {
  Program() : graph(poplar::Target::createIPUTarget(1, 4, "ipu2")) {}
  Tensor Variable(const poplar::Type& type, const std::vector<std::size_t>& shape) {
    const Tensor t = graph.addVariable(type, shape, "v");
    graph.setTileMapping(t, 1);
    return t;
  }
  Sequence Stamp(const Tensor& out) {
    Sequence s;
    hlo::cycleStamp(graph, out, s, "stamp");
    return s;
  }
  Sequence Fill() {
    Sequence s;
    hlo::fill(graph, Variable(poplar::FLOAT, {8}), std::string(4, '\0'), s);
    return s;
  }
  poplar::Executable Compile(const Sequence& main) { return poplar::compileGraph(graph, {main}); }

  Graph graph;
};

std::string ErrorOf(const std::function<void()>& f) {
  try {
    f();
  } catch (const poplar::control_program_error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST(EachTripOfARepeatHasItsCount) {
  Program p;
  const Tensor stamps = p.Variable(poplar::UNSIGNED_INT, {1, 2});
  Sequence inner, outer, main;
  inner.add(p.Fill());
  inner.add(p.Stamp(stamps));
  inner.add(Copy(stamps, p.graph.addDeviceToHostFIFO("stamps", poplar::UNSIGNED_INT, 2)));
  outer.add(Repeat(3, inner));
  outer.add(p.Fill());
  main.add(p.Fill());
  main.add(Repeat(2, outer));
  const auto program = p.Compile(main).program();
  const std::uint64_t stamp = hlo::cyclesBetweenStamps(p.graph.getTarget());
  std::uint64_t fill = 0;
  for (const OperationCost& operation : program->report.operations) {
    if (operation.kind == "popops::fill") fill = operation.cycles.total() / operation.executions;
  }
  std::vector<std::uint64_t> expected;
  for (std::uint64_t o = 0; o < 2; ++o) {
    for (std::uint64_t i = 0; i < 3; ++i)
      expected.push_back(fill + o * (3 * (fill + stamp) + fill) + i * (fill + stamp) + fill);
  }
  const auto check = [&](auto&& engine) {
    engine.Load();
    for (int run = 0; run < 2; ++run) {
      std::vector<std::uint64_t> counts(6);
      engine.ConnectStream(0, counts.data(), counts.data() + counts.size());
      engine.Run(0);
      CHECK(counts == expected);
    }
  };
  check(FastEngine(program));
  check(TileEngine(program));
}

TEST(StampsAreRefusedWhereTheirCyclesAreNotKnown) {
  Program p;
  const Tensor out = p.Variable(poplar::UNSIGNED_INT, {1, 2}), on = p.Variable(poplar::BOOL, {});
  const Sequence nothing;
  const std::string message = "'stamp' counts cycles in ";
  CHECK(ErrorOf([&] {
          p.Compile(Sequence({Repeat(2, If(on, p.Stamp(out), nothing))}));
        }).find(message + "a conditional or a loop of unknown trip count, inside a loop") !=
        std::string::npos);
  CHECK(ErrorOf([&] {
          p.Compile(Sequence({RepeatWhileTrue(p.Stamp(out), on, nothing)}));
        }).find(message + "the condition of a loop") != std::string::npos);
  const poplar::Function f = p.graph.addFunction(p.Stamp(out));
  CHECK(ErrorOf([&] {
          p.Compile(Sequence({Call(f), Call(f)}));
        }).find(message + "a function that is called more than once") != std::string::npos);
  CHECK_EQ(ErrorOf([&] { p.Compile(Sequence({Call(f)})); }), "");
  CHECK_EQ(ErrorOf([&] { p.Compile(Sequence({If(on, p.Stamp(out), nothing)})); }), "");
  CHECK_EQ(ErrorOf([&] { p.Compile(Sequence({RepeatWhileTrue(nothing, on, p.Stamp(out))})); }), "");
}

TEST(AStampTakesATensorOfTwoWordsForEachTile) {
  Program p;
  Sequence s;
  for (const Tensor& wrong : {p.Variable(poplar::INT, {1, 2}), p.Variable(poplar::UNSIGNED_INT, {2})}) {
    bool refused = false;
    try {
      hlo::cycleStamp(p.graph, wrong, s, "wrong");
    } catch (const poplar::poplar_error& error) {
      refused = std::string(error.what()).find("UNSIGNED_INT tensor [tiles, 2]") != std::string::npos;
    }
    CHECK(refused);
  }
}
