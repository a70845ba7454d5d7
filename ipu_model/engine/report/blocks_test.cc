// Poplar's lightweight profiling: Block, its engine options, and what libpva reads.
#include <string>
#include <vector>

#include "check.h"
#include "poplar/Engine.hpp"
#include "poplar/IPUModel.hpp"
#include "poplar/exceptions.hpp"
#include "popops/ElementWise.hpp"
#include "pva/pva.hpp"

namespace {

using namespace poplar;
using namespace poplar::program;
using Kind = pva::Program::Type;

constexpr unsigned kTiles = 4;  // of each IPU

// Two IPUs with a stage each, of two additions on the IPU's first tile.
struct Stages {
  Stages() : device(MakeDevice()), graph(device.getTarget()) {
    for (const unsigned ipu : {0u, 1u}) {
      const Tensor x = graph.addVariable(FLOAT, {64}, "x");
      graph.setTileMapping(x, ipu * kTiles);
      stages.push_back(Block(Sequence{Add(x, "op1"), Add(x, "op2")}, "stage" + std::to_string(ipu + 1)));
    }
  }
  static Device MakeDevice() {
    IPUModel model("ipu2");
    model.numIPUs = 2;
    model.tilesPerIPU = kTiles;
    return model.createDevice();
  }
  Program Add(const Tensor& x, const std::string& name) {
    Sequence add;
    popops::addInPlace(graph, x, x, add, name);
    return Block(add, name);
  }
  pva::Report Run(const Program& main, const OptionFlags& options, unsigned runs = 1) {
    Engine engine(graph, main, options);
    engine.load(device);
    for (unsigned i = 0; i < runs; ++i) engine.run();
    return engine.getReport();
  }

  Device device;
  Graph graph;
  std::vector<Program> stages;
};

std::vector<std::string> Names(const pva::Report& report, std::size_t tile) {
  std::vector<std::string> names;
  for (const auto& block : report.execution().blocks(tile)) names.push_back(block.program()->name());
  return names;
}

}  // namespace

TEST(BlocksAreOnTheIpusThatComputeInThem) {
  Stages s;
  const pva::Report report =
      s.Run(Repeat(3, Sequence{s.stages[0], s.stages[1]}), {{"profiler.blocks.filter", "stage.*"}});
  const std::vector<std::string> first(3, "stage1"), second(3, "stage2");
  CHECK(Names(report, 0) == first && Names(report, kTiles) == second && Names(report, 1).empty());
  std::uint64_t last = 0, cycles = 0;
  for (unsigned trip = 0; trip < 3; ++trip) {
    for (const std::size_t tile : {0u, kTiles}) {
      const pva::BlockExecution block = report.execution().blocks(tile).at(trip);
      CHECK(block.isCommon() && !block.isStreamCopy() && !block.isOverflow() && !block.isBlockFlush());
      CHECK(block.program()->type() == Kind::Sequence && block.tile() == tile);
      CHECK(block.cyclesFrom() >= last && block.cyclesTo() > block.cyclesFrom());
      last = block.cyclesTo();
      cycles += block.cyclesTo() - block.cyclesFrom();
    }
  }
  CHECK_EQ(cycles, report.execution().runs().at(0).cycles());
}

TEST(InnerBlocksFollowTheirOuterOnes) {
  Stages s;
  const pva::Report report = s.Run(s.stages[0], {{"profiler.blocks.filter", "stage1|op2"}});
  CHECK(Names(report, 0) == std::vector<std::string>({"stage1", "op2"}));
  const auto blocks = report.execution().blocks(0);
  CHECK(blocks[0].cyclesFrom() < blocks[1].cyclesFrom() && blocks[0].cyclesTo() == blocks[1].cyclesTo());
}

TEST(FiltersAreOfWholeNames) {
  Stages s;
  CHECK(Names(s.Run(s.stages[0], {}), 0).empty());
  CHECK(Names(s.Run(s.stages[0], {{"profiler.blocks.filter", "stage"}}), 0).empty());
  Stages loops;
  const Program loop = Repeat(2, Sequence({loops.stages[0]}, "body"), "loop");
  CHECK(Names(loops.Run(loop, {{"profiler.blocks.filter", "loop|body"}}), 0).empty());
  Stages programs;
  const Program again = Repeat(2, Sequence({programs.stages[0]}, "body"), "loop");
  CHECK(Names(programs.Run(again, {{"profiler.programs.filter", "loop|body"}}), 0) ==
        std::vector<std::string>({"loop", "body", "body"}));
  Stages wrong;
  CHECK_THROWS(invalid_option, wrong.Run(wrong.stages[0], {{"profiler.blocks.filter", "("}}));
}

TEST(AnotherTileMayRecord) {
  Stages s;
  const pva::Report report =
      s.Run(s.stages[1], {{"profiler.blocks.filter", "stage2"}, {"profiler.blocks.tile", "3"}});
  CHECK(Names(report, kTiles).empty() && Names(report, kTiles + 3) == std::vector<std::string>({"stage2"}));
}

TEST(AFullBufferLosesBlocks) {
  const auto counts = [](const OptionFlags& more) {
    Stages s;
    OptionFlags options{{"profiler.blocks.filter", "op1"}};
    for (const auto& [name, value] : more) options.set(name, value);
    const pva::Report report = s.Run(Repeat(100, s.stages[0]), options);
    std::vector<int> counts(2);
    for (const auto& block : report.execution().blocks(0)) ++counts[block.isOverflow() ? 1 : 0];
    return counts;
  };
  CHECK(counts({}) == std::vector<int>({100, 0}));
  CHECK(counts({{"profiler.blocks.implicitFlush", "false"}}) == std::vector<int>({42, 1}));
  CHECK(counts({{"profiler.blocks.implicitFlush", "false"}, {"profiler.blocks.bufferSize", "2000"}}) ==
        std::vector<int>({84, 1}));
}

TEST(TransfersHaveThreePhases) {
  Stages s;
  const Tensor x = s.graph.addVariable(FLOAT, {1000}, "in");
  s.graph.setTileMapping(x, 2);
  const DataStream stream = s.graph.addHostToDeviceFIFO("in", FLOAT, 1000);
  std::vector<float> values(1000);
  Engine engine(s.graph, Copy(stream, x), {{"debug.instrumentExternalExchange", "true"}});
  engine.connectStream("in", values.data(), values.data() + values.size());
  engine.load(s.device);
  engine.run();
  const auto blocks = engine.getReport().execution().blocks(2);
  CHECK_EQ(blocks.size(), 3u);
  const Kind kinds[] = {Kind::StreamCopyBegin, Kind::StreamCopyMid, Kind::StreamCopyEnd};
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(blocks[i].isStreamCopy() && blocks[i].program()->type() == kinds[i]);
    if (i > 0) CHECK_EQ(blocks[i].cyclesFrom(), blocks[i - 1].cyclesTo());
  }
  CHECK(blocks[1].cyclesTo() > blocks[1].cyclesFrom());
}

TEST(TheClockGoesOnInTheNextRun) {
  Stages s;
  const pva::Report report = s.Run(s.stages[0], {{"profiler.blocks.filter", "stage1"}}, 2);
  const auto blocks = report.execution().blocks(0);
  CHECK_EQ(blocks.size(), 2u);
  CHECK_EQ(blocks[1].cyclesFrom(), blocks[0].cyclesTo());
}
