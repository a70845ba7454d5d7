// What belongs to another graph, or to nothing: variables, streams, buffers, functions and compute sets are
// numbers in a program, which mean others elsewhere.
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "check.h"
#include "poplar/Engine.hpp"
#include "poplar/exceptions.hpp"
#include "popops/ElementWise.hpp"
#include "popops/Reduce.hpp"
#include "testing/codelet_cache.h"
#include "testing/compute_sets.h"

namespace ipu_model {
namespace {

using poplar::ComputeSet;
using poplar::Engine;
using poplar::Graph;
using poplar::Tensor;
using poplar::VertexRef;
using poplar::program::Call;
using poplar::program::Copy;
using poplar::program::Execute;
using poplar::program::If;
using poplar::program::PrintTensor;
using poplar::program::Program;
using poplar::program::RepeatWhileTrue;
using poplar::program::Sequence;
using poplar::program::Switch;
using toy::Contains;
using toy::MessageOf;
using toy::NewGraph;

const toy::CodeletCache cache;

// A graph with one of everything, so that the numbers of two such graphs are the same.
struct Full {
  Full()
      : graph(NewGraph()),
        x(graph.addVariable(poplar::FLOAT, {2}, "x")),
        flag(graph.addVariable(poplar::BOOL, {}, "flag")),
        index(graph.addVariable(poplar::UNSIGNED_INT, {1}, "index")),
        in(graph.addHostToDeviceFIFO("in", poplar::FLOAT, 2)),
        out(graph.addDeviceToHostFIFO("out", poplar::FLOAT, 2)),
        buffer(graph.addRemoteBuffer("buffer", poplar::FLOAT, 2, 3)),
        function(graph.addFunction(Copy(x, out))),
        host_function(graph.addHostFunction("host", {{poplar::FLOAT, 2}}, {})),
        set(graph.addComputeSet("set")),
        vertex(graph.addVertex(set, "Scale", {{"in", x}})) {
    for (const Tensor& t : {x, flag, index}) graph.setTileMapping(t, 0);
    graph.connect(vertex["out"], Out());
    graph.setTileMapping(vertex, 0);
  }
  Tensor Out() {
    const Tensor y = graph.addVariable(poplar::FLOAT, {2}, "y");
    graph.setTileMapping(y, 0);
    return y;
  }
  Graph graph;
  Tensor x, flag, index;
  poplar::DataStream in, out;
  poplar::RemoteBuffer buffer;
  poplar::Function function;
  poplar::HostFunction host_function;
  ComputeSet set;
  VertexRef vertex;
};

TEST(programs_of_another_graph) {
  Full own, other;
  const auto sum = [&](const Tensor& a, const Tensor& b) {
    Sequence program;
    popops::add(own.graph, a, b, program);
    return program;
  };
  const auto total = [&](const Tensor& a) {
    Sequence program;
    popops::reduce(own.graph, a, poplar::FLOAT, {0}, popops::Operation::ADD, program);
    return program;
  };
  // `full` has the operand that is tried, the other operands are the own graph's.
  const std::vector<std::pair<const char*, std::function<Program(Full&)>>> programs = {
      {"copy in", [&](Full& full) { return Copy(full.in, own.x); }},
      {"copy out", [&](Full& full) { return Copy(own.x, full.out); }},
      {"copy", [&](Full& full) { return Copy(full.x, full.Out()); }},
      {"buffer", [&](Full& full) { return Copy(full.buffer, own.x); }},
      {"to buffer", [&](Full& full) { return Copy(own.x, full.buffer); }},
      {"row of buffer", [&](Full& full) { return Copy(own.buffer, own.x, full.index); }},
      {"function", [&](Full& full) { return Call(full.function); }},
      {"host function", [&](Full& full) { return Call(full.host_function, {own.x}, {}); }},
      {"if", [&](Full& full) { return If(full.flag, Sequence(), Sequence({Copy(own.x, own.Out())})); }},
      {"while", [&](Full& full) { return RepeatWhileTrue(Sequence(), full.flag, Sequence()); }},
      {"switch", [&](Full& full) { return Switch(full.index.reshape({}), {{1, Copy(own.x, own.Out())}}); }},
      {"print", [&](Full& full) { return PrintTensor("x", full.x); }},
      {"execute", [&](Full& full) { return Execute(full.set); }},
      {"inside", [&](Full& full) { return Sequence({Sequence({Execute(full.set)})}); }},
      {"add", [&](Full& full) { return sum(own.x, full.x); }},
      {"reduce", [&](Full& full) { return total(full.x); }}};
  for (const auto& [what, make] : programs) {
    const auto compile = [&](Full* full) { Engine engine(own.graph, make(*full)); };
    compile(&own);
    const std::string message = MessageOf<poplar::poplar_error>([&] { compile(&other); });
    if (!Contains(message, {"of another graph"})) std::printf("%s: %s\n", what, message.c_str());
    CHECK(Contains(message, {"of another graph"}));
  }
}

TEST(vertices_of_another_graph) {
  Full own, other;
  for (const auto& call :
       std::vector<std::function<void()>>{[&] { own.graph.addVertex(other.set, "Scale"); },
                                          [&] { own.graph.setTileMapping(other.vertex, 1); },
                                          [&] { own.graph.setPerfEstimate(other.vertex, 1); },
                                          [&] { own.graph.setInitialValue(other.vertex["factor"], 3.0f); },
                                          [&] { own.graph.connect(other.vertex["in"], own.x); }}) {
    CHECK(Contains(MessageOf<poplar::poplar_error>(call), {"'set'", "of another graph"}));
  }
}

TEST(of_no_graph) {
  Full own;
  CHECK_THROWS(poplar::control_program_error, Call(poplar::Function()));
  CHECK_THROWS(poplar::control_program_error, Call(poplar::HostFunction(), {}, {}));
  CHECK_THROWS(poplar::control_program_error, Copy(poplar::DataStream(), own.x));
  CHECK_THROWS(poplar::control_program_error, Copy(poplar::RemoteBuffer(), own.x));
}

TEST(moved_from) {
  Full own;
  Graph graph(std::move(own.graph));
  CHECK_THROWS(poplar::poplar_error, own.graph.addVariable(poplar::FLOAT, {1}));
  CHECK_THROWS(poplar::poplar_error, Engine(own.graph, Sequence()));
  Engine first(graph, Copy(own.in, own.x));
  Engine engine(std::move(first));
  float values[2] = {};
  CHECK(Contains(MessageOf<poplar::poplar_error>([&] { first.run(); }), {"Engine", "moved from"}));
  CHECK_THROWS(poplar::poplar_error, first.load());
  CHECK_THROWS(poplar::poplar_error, first.connectStream("in", values, values + 2));
  CHECK_THROWS(poplar::poplar_error, first.writeTensor("x", values, values + 2));
  CHECK_THROWS(poplar::poplar_error, first.copyToRemoteBuffer(values, "buffer", 0));
  first = std::move(engine);
  first.connectStream("in", values, values + 2);
  first.load();
  first.run();
}

TEST(initial_values_of_every_form) {
  for (const char* mode : toy::kEngines) {
    Graph graph = NewGraph();
    const Tensor h = graph.addVariable(poplar::HALF, {2}, "h"),
                 f = graph.addVariable(poplar::FLOAT, {3}, "f");
    graph.setTileMapping(h, 0);
    graph.setTileMapping(f, 1);
    const std::vector<std::uint16_t> bits = {0x3c00, 0xc000};
    graph.setInitialValueHalf(h, bits);
    graph.setInitialValue<float>(f, {1.0f, 2.0f, 3.0f});
    graph.createHostRead("h", h);
    graph.createHostRead("f", f);
    Engine engine(graph, Sequence(), {{"execution", mode}});
    engine.load();
    CHECK(toy::Read<std::uint16_t>(&engine, "h", 2) == bits);
    CHECK(toy::Read<float>(&engine, "f", 3) == (std::vector<float>{1, 2, 3}));
  }
}

}  // namespace
}  // namespace ipu_model
