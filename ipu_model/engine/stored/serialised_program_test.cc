// compileGraph, serialisation and poplar::Engine, with both ways to run.
#include "engine/stored/serialised_program.h"

#include <cstdint>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "check.h"
#include "core/operation/serialise.h"
#include "ipu_model/Model.hpp"
#include "poplar/Engine.hpp"
#include "poplar/IPUModel.hpp"
#include "poplar/exceptions.hpp"
#include "poputil/TileMapping.hpp"

namespace {

using poplar::Tensor;
using poplar::program::Copy;
using poplar::program::Sequence;

constexpr std::size_t kRows = 6, kColumns = 10;

// Rotates the rows of its input by one, `times` times, in a loop whose body is a function, and puts a
// constant row in front. Also contains prints and checks.
struct Rotation {
  poplar::Graph graph{poplar::Target::createIPUTarget(1, 16, "ipu2")};
  Sequence main, write, read;
  explicit Rotation(unsigned times) {
    const Tensor x = graph.addVariable(poplar::INT, {kRows, kColumns}, "x");
    const Tensor state = graph.addVariable(poplar::INT, {kColumns}, "state");
    std::vector<std::int32_t> row(kColumns, 7);
    const Tensor constant = graph.addConstant(poplar::INT, {1, kColumns}, row.data(), "sevens");
    const std::int32_t no = 0;
    const Tensor never = graph.addConstant(poplar::INT, {}, &no, "never");
    graph.addVariable(poplar::INT, {1 << 30}, "unused, not mapped");
    poputil::mapTensorLinearly(graph, x);
    poputil::mapTensorLinearly(graph, state);
    graph.setTileMapping(constant, 2);
    graph.setTileMapping(never, 0);
    const auto in = graph.addHostToDeviceFIFO("in0", poplar::INT, kRows * kColumns);
    const auto out = graph.addDeviceToHostFIFO("out0", poplar::INT, (kRows + 1) * kColumns);
    const auto state_in = graph.addHostToDeviceFIFO("state0", poplar::INT, kColumns);
    const auto state_out = graph.addDeviceToHostFIFO("state0.out", poplar::INT, kColumns);
    const auto function = graph.addFunction(
        Copy(x, poplar::concat(x.slice(1, kRows, 0), x.slice(0, 1, 0), 0), false, "rotate"));
    main.add(Copy(in, x));
    main.add(poplar::program::Repeat(times, poplar::program::Call(function)));
    main.add(poplar::program::AbortOnCondition(never, "cannot happen"));
    main.add(poplar::program::If(never, Sequence(), Copy(x[0], state)));
    main.add(Copy(poplar::concat(constant, x, 0), out));
    write.add(Copy(state_in, state));
    read.add(Copy(state, state_out));
  }
  poplar::Executable Compile() const { return poplar::compileGraph(graph, {main, write, read}, "rotation"); }
};

void CheckRuns(const poplar::Executable& executable, unsigned times) {
  for (const char* execution : {"fast", "tile"}) {
    poplar::Engine engine(executable, {{"execution", execution}});
    CHECK_THROWS(poplar::poplar_error, engine.run(0));
    engine.load();
    std::vector<std::int32_t> x(kRows * kColumns), y((kRows + 1) * kColumns, -1), state(kColumns, -1);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<std::int32_t>(i);
    engine.connectStream("in0", x.data());
    engine.connectStream(engine.streamIndex("out0"), y.data());
    engine.connectStream("state0.out", state.data(), state.data() + state.size());
    engine.run(0);
    engine.run(2);
    for (std::size_t r = 0; r <= kRows; ++r) {
      for (std::size_t c = 0; c < kColumns; ++c) {
        const std::size_t from = (r + kRows - 1 + kRows * times - times) % kRows;
        CHECK_EQ(y[r * kColumns + c], r == 0 ? 7 : static_cast<std::int32_t>(from * kColumns + c));
      }
    }
    for (std::size_t c = 0; c < kColumns; ++c) CHECK_EQ(state[c], y[kColumns + c]);
    CHECK_THROWS(poplar::stream_connection_error, engine.run(1));
    CHECK_THROWS(poplar::stream_connection_error, engine.connectStream("in1", x.data()));
    CHECK_THROWS(poplar::poplar_error, engine.run(3));
  }
}

TEST(CompilesAndRunsBothWays) {
  const poplar::Executable executable = Rotation(4).Compile();
  CheckRuns(executable, 4);
  CHECK(ipu_model::ReportOf(executable).cycles.exchange > 0);
  CHECK(ipu_model::ReportOf(executable).max_tile_bytes > 0);
  CHECK(ipu_model::HostNanoseconds(executable) > 0);
}

TEST(CopiesOnTilesMoveTheSameElements) {
  const auto forms = [](poplar::Graph* graph, const Tensor& x) {
    const Tensor other = graph->addVariable(poplar::INT, {4, 3, 1}, "other");
    graph->setTileMapping(other, 3);
    return std::vector<Tensor>{x.flatten(), x.dimShuffle({2, 0, 1}).flatten(), x.reverse(2).flatten(),
                               poplar::concat({x.slice(0, 3, 2), other, x.slice(4, 5, 2)}, 2).flatten()};
  };
  for (std::size_t s = 0; s < 4; ++s) {
    for (std::size_t d = 0; d < 4; ++d) {
      poplar::Graph graph(poplar::Target::createIPUTarget(1, 5, "ipu1"));
      const Tensor x = graph.addVariable(poplar::INT, {4, 3, 5}, "x");
      const Tensor y = d % 2 == 0 ? x : graph.addVariable(poplar::INT, {4, 3, 5}, "y");
      poputil::mapTensorLinearly(graph, x, 7, 1);
      for (unsigned i = 0; d % 2 == 1 && i < 5; ++i) graph.setTileMapping(y.slice(i, i + 1, 2), 4 - i);
      const auto in = graph.addHostToDeviceFIFO("in", poplar::INT, 60);
      const auto out = graph.addDeviceToHostFIFO("out", poplar::INT, 60);
      const Tensor source = forms(&graph, x)[s], destination = forms(&graph, y)[d];
      const poplar::Executable executable = poplar::compileGraph(
          graph, {Sequence({Copy(in, source), Copy(source, destination), Copy(destination, out)})});
      for (const char* execution : {"fast", "tile"}) {
        poplar::Engine engine(executable, {{"execution", execution}});
        std::vector<std::int32_t> values(60), result(60, -1);
        for (std::size_t i = 0; i < 60; ++i) values[i] = static_cast<std::int32_t>(i);
        engine.connectStream("in", values.data());
        engine.connectStream("out", result.data());
        engine.load();
        engine.run();
        CHECK(result == values);
      }
    }
  }
}

TEST(ComesBackFromItsSerialisedForm) {
  const poplar::Executable executable = Rotation(2).Compile();
  std::stringstream data;
  executable.serialize(data);
  const std::string written = data.str();
  const poplar::Executable back = poplar::Executable::deserialize(data);
  CheckRuns(back, 2);
  CHECK_EQ(ipu_model::ReportOf(back).cycles.total(), ipu_model::ReportOf(executable).cycles.total());
  CHECK_EQ(ipu_model::ReportOf(back).max_tile_bytes, ipu_model::ReportOf(executable).max_tile_bytes);
  CHECK_EQ(ipu_model::HostNanoseconds(back), ipu_model::HostNanoseconds(executable));
  std::stringstream again;
  back.serialize(again);
  CHECK(again.str() == written);
  // Deterministic: another build of the same graph gives the same bytes.
  std::stringstream other;
  Rotation(2).Compile().serialize(other);
  CHECK(other.str() == written);
}

template <typename F>
bool Refused(F&& f) {
  try {
    f();
  } catch (const ipu_model::SerialiseError& error) {
    return std::string(error.what()).size() > 10;
  }
  return false;
}

TEST(DamagedFilesAreRefused) {
  const std::string data = ipu_model::SerialiseProgram(*Rotation(2).Compile().program());
  for (std::size_t n = 0; n < data.size(); ++n) {
    CHECK(Refused([&] { ipu_model::DeserialiseProgram(std::string_view(data).substr(0, n)); }));
  }
  CHECK(Refused([&] { ipu_model::DeserialiseProgram(data + "x"); }));
  std::mt19937 rng(5);
  for (int round = 0; round < 2000; ++round) {
    std::string damaged = data;
    damaged[rng() % data.size()] ^= static_cast<char>(1 << (rng() % 8));
    CHECK(Refused([&] { ipu_model::DeserialiseProgram(damaged); }));
  }
  std::istringstream empty;
  CHECK_THROWS(poplar::poplar_error, poplar::Executable::deserialize(empty));
}

// Damage that a checksum would not detect must be rejected, or give a program whose parts are consistent.
TEST(DamagedBodiesNeverCrash) {
  const std::string body = ipu_model::SerialiseBody(*Rotation(2).Compile().program());
  std::mt19937 rng(6);
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string damaged = body;
    for (unsigned i = 0; i <= rng() % 3; ++i) {
      damaged[rng() % body.size()] = static_cast<char>(rng() % 2 == 0 ? rng() : rng() % 8);
    }
    refused += Refused([&] { ipu_model::DeserialiseBody(damaged); });
  }
  for (std::size_t n = 0; n < body.size(); ++n) {
    CHECK(Refused([&] { ipu_model::DeserialiseBody(std::string_view(body).substr(0, n)); }));
  }
  CHECK(refused > 1000);
}

TEST(FunctionsThatCallThemselvesAreRefused) {
  const auto program = Rotation(2).Compile().program();
  auto& damaged = const_cast<ipu_model::CompiledProgram&>(*program);
  for (const ipu_model::ProgramNode* node : ipu_model::NodesOf(program->programs)) {
    if (node->kind == ipu_model::ProgramKind::kCall)
      damaged.functions.at(0) = std::make_shared<const ipu_model::ProgramNode>(*node);
  }
  CHECK(Refused([&] { ipu_model::DeserialiseBody(ipu_model::SerialiseBody(*program)); }));
}

TEST(GraphsThatCannotRunAreRefused) {
  poplar::Graph graph(poplar::Target::createIPUTarget(1, 2, "ipu2"));
  const Tensor x = graph.addVariable(poplar::FLOAT, {100}, "not mapped");
  const Tensor y = graph.addVariable(poplar::FLOAT, {100}, "y");
  graph.setTileMapping(y, 1);
  CHECK_THROWS(poplar::invalid_tile_mapping, poplar::compileGraph(graph, {Copy(x, y)}));
  graph.setTileMapping(x, 0);
  CHECK_EQ(poplar::compileGraph(graph, {Copy(x, y)}).program()->programs.size(), 1u);
  CHECK_THROWS(poplar::control_program_error, poplar::compileGraph(graph, {}));

  const Tensor large = graph.addVariable(poplar::FLOAT, {1 << 20}, "large");
  const auto in = graph.addHostToDeviceFIFO("in", poplar::FLOAT, 1 << 20);
  poputil::mapTensorLinearly(graph, large);
  try {
    poplar::compileGraph(graph, {Copy(in, large)}, "big");
    CHECK(false);
  } catch (const poplar::graph_memory_allocation_error& error) {
    CHECK(std::string(error.what()).find("large") != std::string::npos);
    CHECK(std::string(error.what()).find("big") == 0);
    const auto& bytes = error.graphProfile["memory"]["byTile"]["total"];
    CHECK_EQ(bytes.size(), 2u);
    CHECK(bytes[0].asUint() + bytes[1].asUint() >= 4u << 20);
    CHECK(error.graphProfile["target"]["bytesPerTile"].asUint() < bytes[0].asUint());
  }
  // Allowed, it is compiled and profiled, stored or not, but not run.
  const poplar::OptionFlags allowed = {{"debug.allowOutOfMemory", "true"}};
  CHECK_THROWS(poplar::graph_memory_allocation_error,
               poplar::compileGraph(graph, {Copy(in, large)}, {{"debug.allowOutOfMemory", "false"}}));
  const poplar::Executable too_large = poplar::compileGraph(graph, {Copy(in, large)}, allowed);
  std::stringstream stored;
  too_large.serialize(stored);
  const poplar::Executable read = poplar::Executable::deserialize(stored);
  const poplar::Device device(graph.getTarget(), 0);
  for (const char* execution : {"fast", "tile"}) {
    for (const poplar::Executable& executable : {too_large, read}) {
      poplar::Engine engine(executable, {{"execution", execution}});
      std::ostringstream summary;
      engine.printProfileSummary(summary);
      CHECK(summary.str().find("Tiles out of memory") != std::string::npos);
      CHECK_EQ(engine.getReport().compilation().tiles().size(), 2u);
      CHECK_THROWS(poplar::graph_memory_allocation_error, engine.load(device));
    }
    poplar::Engine engine(graph, Copy(in, large), {{"execution", execution}, *allowed.begin()});
    CHECK_THROWS(poplar::graph_memory_allocation_error, engine.loadAndRun(device));
  }
  CHECK_THROWS(poplar::poplar_error, poplar::Target::createIPUTarget(1, "ipu9"));
  CHECK_THROWS(poplar::poplar_error, poplar::Target::createIPUTarget(1, 100000, "ipu2"));
  CHECK_THROWS(poplar::poplar_error, poplar::Target::createIPUTarget(0, "ipu2"));
  CHECK_THROWS(poplar::poplar_error, poplar::Target::createIPUTarget(65, "ipu2"));
}

TEST(LoadWantsTheRightDevice) {
  const poplar::Executable executable = Rotation(1).Compile();
  poplar::Engine engine(executable);
  poplar::IPUModel model("ipu2");
  CHECK_THROWS(poplar::poplar_error, engine.load(model.createDevice()));
  CHECK_THROWS(poplar::poplar_error, engine.load(poplar::Device()));
  model.tilesPerIPU = 16;
  engine.load(model.createDevice());
  CHECK_THROWS(poplar::invalid_option, poplar::Engine(executable, {{"execution", "slow"}}));
  CHECK(engine.listStreams() == (std::vector<std::string>{"in0+", "out0-", "state0+", "state0.out-"}));
}

}  // namespace
