// What programs for older Poplar use: sequences without braces, tensors as pointers, profiles as trees,
// popfloat's casts on the host.
#include <cmath>
#include <cstdint>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "check.h"
#include "ipu_model/Model.hpp"
#include "popfloat/experimental/CastToHalf.hpp"
#include "poplar/CycleCount.hpp"
#include "poplar/Engine.hpp"
#include "poplar/IPUModel.hpp"
#include "poplar/exceptions.hpp"
#include "popops/ElementWise.hpp"
#include "testing/small_device.h"

namespace {

using namespace poplar;
using namespace poplar::program;
using ipu_model::toy::InBothModes;
using ipu_model::toy::OnTile;
using ipu_model::toy::SmallDevice;
using jax_ipu::testing::Contains;

TEST(SequencesWithoutBraces) {
  InBothModes([](const OptionFlags& options) {
    const Device device = SmallDevice();
    Graph graph(device);
    const Tensor x = OnTile(graph, FLOAT, {2}, 0, "x"), y = OnTile(graph, FLOAT, {2}, 1, "y");
    graph.createHostWrite("x", x);
    graph.createHostRead("y", y);
    Sequence twice;
    popops::addInPlace(graph, x, x, twice, "twice");
    // One that has a sequence in it is another; a copy is not.
    Sequence all(twice, Repeat(2, twice), Copy(x, y)), one(Copy(x, y)), copied(twice);
    CHECK(copied.node() == twice.node());
    all.add(one);
    const Sequence converted = Repeat(0, twice);
    all.add(converted);
    Engine engine(graph, all, options);
    engine.load(device);
    const float given[] = {1, -3};
    float read[] = {0, 0};
    engine.writeTensor("x", given);
    engine.run();
    engine.readTensor("y", read);
    CHECK_EQ(read[0], 8.0f);
    CHECK_EQ(read[1], -24.0f);
  });
}

TEST(CycleCountsWithAName) {
  InBothModes([](const OptionFlags& options) {
    const Device device = SmallDevice();
    Graph graph(device);
    const Tensor x = OnTile(graph, FLOAT, {64}, 0, "x");
    Sequence prog;
    popops::expInPlace(graph, x, prog);
    graph.createHostRead("cycles", cycleCount(graph, prog, 0, "timer"));
    Engine engine(graph, prog, options);
    engine.load(device);
    engine.run();
    const std::uint64_t all = ipu_model::LastRunCycles(engine);
    std::uint32_t cycles[2] = {};
    engine.readTensor("cycles", cycles);
    CHECK(cycles[0] > 100 && cycles[0] < all);
    CHECK_EQ(cycles[1], 0u);
  });
}

TEST(ProfilesAsTrees) {
  const Device device = SmallDevice();
  Graph graph(device);
  const Tensor x = OnTile(graph, FLOAT, {64}, 2, "x"), y = OnTile(graph, FLOAT, {64}, 1, "y");
  const DataStream in = graph.addHostToDeviceFIFO("in", FLOAT, 64);
  Sequence main(Copy(in, x));
  popops::mulInPlace(graph, x, x, main, "square");
  main.add(Repeat(3, Copy(x, y, false, "move")));
  Engine engine(graph, main);
  engine.load(device);
  std::vector<float> values(64, 1.0f);
  engine.connectStream("in", values.data());
  engine.run(0, "first");
  engine.run();

  const ProfileValue program = engine.getGraphProfile(), runs = engine.getExecutionProfile();
  const pva::Report report = engine.getReport();
  CHECK_EQ(program["target"]["numTiles"].asUint(), 4u);
  CHECK_EQ(program["target"]["architecture"].asString(), "ipu2");
  CHECK_EQ(program["graph"]["numComputeSets"].asUint(), report.compilation().graph().numComputeSets());
  CHECK_EQ(program["graph"]["numVertices"].asUint(), report.compilation().graph().numVertices());
  CHECK_EQ(program["graph"]["numVars"].asUint(), 2u);
  const auto& bytes = program["memory"]["byTile"]["total"].asVector();
  CHECK_EQ(bytes.size(), 4u);
  for (std::size_t tile = 0; tile < bytes.size(); ++tile)
    CHECK_EQ(bytes[tile].asUint(), report.compilation().tiles()[tile].memory().total().excludingGaps());
  CHECK(program["memory"]["byCategory"]["variables"].asUint() >= 512);
  std::uint64_t vertices = 0;
  for (const ProfileValue& type : program["vertexTypes"].asVector()) vertices += type["instances"].asUint();
  CHECK_EQ(vertices, program["graph"]["numVertices"].asUint());

  // As programs look for the cycles of a compute set.
  std::uint64_t cycles = 0, found = 0, all = 0;
  for (const ProfileValue& step : runs["simulation"]["steps"].asVector()) {
    all += step["cycles"].asUint() + step["exchangeCycles"].asUint() + step["syncCycles"].asUint();
    if (step["type"] == "OnTileExecute" && step["name"] == "square") {
      cycles = step["cycles"].asUint();
      ++found;
    }
  }
  CHECK_EQ(found, 2u);
  CHECK_EQ(cycles, report.execution().steps()[1].cycles().compute);
  CHECK_EQ(runs["simulation"]["cycles"].asUint(), 2 * ipu_model::LastRunCycles(engine));
  CHECK_EQ(runs["simulation"]["cycles"].asUint(), all);
  CHECK_EQ(runs["runs"].size(), 2u);
  CHECK_EQ(runs["runs"][0]["name"].asString(), "first");

  for (const char* steps : {"false", "true"}) {
    std::ostringstream of_engine, of_trees;
    engine.printProfileSummary(of_engine, {{"showExecutionSteps", steps}});
    printProfileSummary(of_trees, program, runs, {{"showExecutionSteps", steps}});
    CHECK_EQ(of_trees.str(), of_engine.str());
  }
  std::ostringstream json;
  serializeToJSON(json, runs, false);
  CHECK(Contains(json.str(), "\"simulation\"") && Contains(json.str(), "\"name\":\"square\""));
  engine.resetExecutionProfile();
  CHECK_EQ(engine.getExecutionProfile()["simulation"]["steps"].size(), 0u);
}

TEST(CastsToHalf) {
  using popfloat::experimental::halfToSingle;
  using popfloat::experimental::singleToHalf;
  CHECK_EQ(singleToHalf(1.0f), 0x3c00);
  CHECK_EQ(singleToHalf(-2.5f), 0xc100);
  CHECK_EQ(singleToHalf(1.0f + 1.0f / 2048), 0x3c00);  // ties to even
  CHECK_EQ(singleToHalf(1.0f + 3.0f / 2048), 0x3c02);
  CHECK_EQ(singleToHalf(std::ldexp(1.0f, -24)), 0x0001);
  CHECK_EQ(singleToHalf(65519.0f, true), 0x7bff);
  CHECK_EQ(singleToHalf(65520.0f), 0x7bff);
  CHECK_EQ(singleToHalf(-1e30f), 0xfbff);
  CHECK(std::isnan(halfToSingle(singleToHalf(65520.0f, true))));
  CHECK_EQ(halfToSingle(singleToHalf(std::numeric_limits<float>::infinity())),
           std::numeric_limits<float>::infinity());
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = halfToSingle(static_cast<std::uint16_t>(bits));
    CHECK(std::isnan(value) || singleToHalf(value) == bits);
  }
}

}  // namespace
