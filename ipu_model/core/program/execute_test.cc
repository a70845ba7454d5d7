// Compute sets of explicit vertices, in both engines: values, edges of every form, cycles, stored
// executables.
#include <cstdint>
#include <functional>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "check.h"
#include "ipu_model/Model.hpp"
#include "ipu_model/Stored.hpp"
#include "poplar/Engine.hpp"
#include "poplar/exceptions.hpp"
#include "poputil/TileMapping.hpp"
#include "testing/codelet_cache.h"
#include "testing/compute_sets.h"

namespace ipu_model {
namespace {

using poplar::ComputeSet;
using poplar::Graph;
using poplar::Tensor;
using poplar::VertexRef;
using poplar::program::Execute;
using poplar::program::Sequence;
using toy::Contains;
using toy::InBoth;
using toy::kEngines;
using toy::MessageOf;
using toy::NewGraph;
using toy::Read;
using toy::Write;

const toy::CodeletCache cache;

TEST(hello_poplar) {
  Graph graph = NewGraph();
  const Tensor x = graph.addVariable(poplar::FLOAT, {4}, "x"), y = graph.addVariable(poplar::FLOAT, {4}, "y");
  const ComputeSet cs = graph.addComputeSet("add");
  for (unsigned i = 0; i < 4; ++i) {
    graph.setTileMapping(x[i], i);
    graph.setTileMapping(y[i], i + 4);
    const VertexRef v = graph.addVertex(cs, "Adder", {{"x", x[i]}, {"y", 10.5f}, {"sum", y[i]}});
    graph.setTileMapping(v, i + 8);
    graph.setPerfEstimate(v, 20);
  }
  graph.createHostWrite("x", x);
  graph.createHostRead("y", y);
  Sequence program({Execute(cs)});
  InBoth(graph, program, [](poplar::Engine* engine) {
    Write<float>(engine, "x", {1, 2, 3, 4});
    engine->run();
    CHECK(Read<float>(engine, "y", 4) == (std::vector<float>{11.5, 12.5, 13.5, 14.5}));
  });
}

// Edges of rows, of a column, of a concatenation and of a broadcast; lists, indices and tensors as edges.
TEST(edges_of_every_form) {
  Graph graph = NewGraph();
  const Tensor a = graph.addVariable(poplar::INT, {3, 4}, "a"), y = graph.addVariable(poplar::INT, {9}, "y");
  poputil::mapTensorLinearly(graph, a, 1, 1);
  poputil::mapTensorLinearly(graph, y, 1, 1);
  const ComputeSet cs = graph.addComputeSet("rows");
  const VertexRef rows = graph.addVertex(cs, "Weighted<int>");
  graph.connect(rows["rows"], a);
  graph.connect(rows["sums"], y.slice(0, 3));
  graph.setInitialValue(rows["weights"], {1, 10, 100, 1000});
  const VertexRef columns = graph.addVertex(cs, "Weighted<int>");
  graph.connect(columns["rows"],
                std::vector<Tensor>{a.transpose()[1], concat(a[0].slice(1, 3), a[2][3].reshape({1}))});
  graph.connect(columns["sums"], std::vector<Tensor>{y[5], y[3]});
  graph.setInitialValue(columns["weights"], std::vector<int>{1, 2, 3});
  const VertexRef others = graph.addVertex(cs, "Weighted<int>");
  graph.setFieldSize(others["rows"], 3);
  graph.connect(others["rows"][0], a[1].slice(1, 2).broadcast(4, 0));
  graph.connect(others["rows"][1], a.reverse(1)[0]);
  graph.connect(others["rows"][2], std::vector<Tensor>{a[2].slice(0, 2), a[0].slice(0, 2)});
  for (unsigned i = 0; i < 3; ++i) graph.connect(others["sums"][i], y[6 + i]);
  graph.setFieldSize(others["weights"], 4);
  graph.setInitialValue(others["weights"], {1, 1, 1, 2});
  graph.setTileMapping(rows, 0);
  graph.setTileMapping(columns, 1);
  graph.setTileMapping(others, 1);
  graph.createHostWrite("a", a);
  graph.createHostRead("y", y);
  InBoth(graph, Sequence({Execute(cs)}), [](poplar::Engine* engine) {
    Write<int>(engine, "a", {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2});
    engine->run();
    const std::vector<int> y = Read<int>(engine, "y", 9);
    CHECK(std::vector<int>(y.begin(), y.begin() + 3) == (std::vector<int>{3210, 7654, 2198}));
    CHECK_EQ(y[5], 1 + 5 * 2 + 9 * 3);
    CHECK_EQ(y[3], 1 + 2 * 2 + 2 * 3);
    CHECK(std::vector<int>(y.begin() + 6, y.end()) ==
          (std::vector<int>{25, 3 + 2 + 1 + 0, 8 + 9 + 0 + 1 * 2}));
  });
}

TEST(state_of_vertices) {
  Graph graph = NewGraph();
  const Tensor in = graph.addVariable(poplar::FLOAT, {5}, "in"),
               out = graph.addVariable(poplar::FLOAT, {10}, "out");
  const Tensor count = graph.addVariable(poplar::INT, {1}, "count"),
               six = graph.addVariable(poplar::INT, {8}, "six");
  for (const Tensor& t : {in, out, count, six}) graph.setTileMapping(t, 3);
  const ComputeSet cs = graph.addComputeSet("state");
  const VertexRef first = graph.addVertex(cs, "Scale", {{"in", in}, {"out", out.slice(0, 5)}});
  const VertexRef second = graph.addVertex(cs, "Scale", {{"in", in}, {"out", out.slice(5, 10)}});
  graph.setInitialValue(second["factor"], -3);
  const VertexRef counter = graph.addVertex(cs, "Counter", {{"out", count[0]}});
  graph.setInitialValue(counter["calls"], 40u);
  const VertexRef workers = graph.addVertex(cs, "Six", {{"data", six}});
  for (const VertexRef& v : {first, second, counter, workers}) graph.setTileMapping(v, 3);
  graph.createHostWrite("in", in);
  graph.createHostWrite("six", six);
  graph.createHostRead("out", out);
  graph.createHostRead("count", count);
  graph.createHostRead("six", six);
  InBoth(graph, Sequence({Execute(cs)}), [](poplar::Engine* engine) {
    Write<float>(engine, "in", {1, 2, 3, 4, 5});
    Write<int>(engine, "six", {0, 1, 2, 3, 4, 5, 6, 7});
    engine->run();
    CHECK(Read<float>(engine, "out", 10) == (std::vector<float>{2, 4, 6, 8, 10, -3, -6, -9, -12, -15}));
    CHECK(Read<int>(engine, "six", 8) == (std::vector<int>{0, 11, 22, 33, 44, 55, 6, 17}));
    CHECK(Read<int>(engine, "count", 1) == std::vector<int>{41});
    engine->run();
    CHECK(Read<int>(engine, "count", 1) == std::vector<int>{42});
    engine->load();
    engine->run();
    CHECK(Read<int>(engine, "count", 1) == std::vector<int>{41});
  });
}

TEST(half_and_alignment) {
  Graph graph = NewGraph();
  const Tensor h = graph.addVariable(poplar::HALF, {2, 3}, "h"),
               s = graph.addVariable(poplar::HALF, {2}, "s");
  const Tensor in = graph.addVariable(poplar::FLOAT, {7}, "in"),
               out = graph.addVariable(poplar::FLOAT, {7}, "out");
  for (const Tensor& t : {h, s, in, out}) poputil::mapTensorLinearly(graph, t, 1, 1);
  const ComputeSet cs = graph.addComputeSet("half");
  const VertexRef v = graph.addVertex(cs, "Weighted<half>", {{"rows", h}, {"sums", s}});
  graph.setInitialValue(v["weights"], {0.5, 1.0, 2.0});
  // At an odd element, so not aligned in the variable.
  const VertexRef w = graph.addVertex(cs, "Wide", {{"in", in.slice(1, 5)}, {"out", out.slice(1, 5)}});
  graph.setTileMapping(v, 0);
  graph.setTileMapping(w, 1);
  const std::vector<float> halves = {1, 2, 3, 0.25, 0.5, 4};
  const Tensor values = graph.addConstant(poplar::HALF, {2, 3}, halves);
  graph.setTileMapping(values, 0);
  graph.createHostWrite("in", in);
  graph.createHostRead("out", out);
  graph.createHostRead("s", s);
  InBoth(graph, Sequence({poplar::program::Copy(values, h), Execute(cs)}), [](poplar::Engine* engine) {
    Write<float>(engine, "in", {0, 1, 2, 3, 4, 5, 6});
    engine->run();
    CHECK(Read<std::uint16_t>(engine, "s", 2) == (std::vector<std::uint16_t>{0x4840, 0x4850}));
    const std::vector<float> y = Read<float>(engine, "out", 7);
    CHECK(std::vector<float>(y.begin() + 1, y.begin() + 5) == (std::vector<float>{2, 3, 4, 5}));
  });
}

// What the vertices of one tile alone read lies there: the first constant moves, the others are exchanged.
TEST(constants_lie_with_their_readers) {
  Graph graph = NewGraph();
  const Tensor out = graph.addVariable(poplar::FLOAT, {8}, "out");
  graph.setTileMapping(out, 2);
  const std::vector<float> values = {1, 2};
  std::vector<Tensor> constants;
  for (int i = 0; i < 3; ++i) constants.push_back(graph.addConstant<float>(poplar::FLOAT, {2}, values));
  const ComputeSet cs = graph.addComputeSet("scale");
  const auto add = [&](const Tensor& in, std::size_t at, unsigned tile) {
    graph.setTileMapping(
        graph.addVertex(cs, "Scale", {{"in", in}, {"out", out.slice(at, at + in.numElements())}}), tile);
  };
  for (const Tensor& c : constants) graph.setTileMapping(c, 0);
  add(constants[0], 0, 2);
  add(constants[1], 2, 2);
  add(constants[1], 4, 3);
  add(constants[2].slice(0, 1), 6, 2);
  graph.createHostRead("out", out);
  InBoth(graph, Sequence({Execute(cs)}), [](poplar::Engine* engine) {
    engine->run();
    const std::vector<float> y = Read<float>(engine, "out", 8);
    CHECK(std::vector<float>(y.begin(), y.begin() + 7) == (std::vector<float>{2, 4, 2, 4, 2, 4, 2}));
  });
  CHECK_EQ(graph.getTileMapping(constants[0])[2].size(), 1u);
  CHECK_EQ(graph.getTileMapping(constants[1])[0].size(), 1u);
  CHECK_EQ(graph.getTileMapping(constants[2])[0].size(), 1u);
}

// A loop around compute sets whose edges change places in memory: streams that move.
TEST(inside_programs) {
  Graph graph = NewGraph();
  const Tensor x = graph.addVariable(poplar::FLOAT, {6}, "x"), y = graph.addVariable(poplar::FLOAT, {6}, "y");
  poputil::mapTensorLinearly(graph, x, 1, 1);
  poputil::mapTensorLinearly(graph, y, 1, 1);
  const ComputeSet up = graph.addComputeSet("up"), down = graph.addComputeSet("down");
  for (const auto& [cs, from, to, factor] :
       {std::make_tuple(up, x, y, 2.0f), std::make_tuple(down, y, x, 1.5f)}) {
    for (unsigned i = 0; i < 6; i += 2) {
      const VertexRef v =
          graph.addVertex(cs, "Scale", {{"in", from.slice(i, i + 2)}, {"out", to.slice(i, i + 2)}});
      graph.setInitialValue(v["factor"], factor);
      graph.setTileMapping(v, i);
    }
  }
  Sequence program;
  program.add(poplar::program::Copy(graph.addHostToDeviceFIFO("in", poplar::FLOAT, 6), x));
  program.add(poplar::program::Repeat(3, Sequence({Execute(up), Execute(down)})));
  program.add(poplar::program::Copy(x, graph.addDeviceToHostFIFO("out", poplar::FLOAT, 6)));
  InBoth(graph, program, [](poplar::Engine* engine) {
    std::vector<float> in = {1, 2, 3, 4, 5, 6, 10, 20, 30, 40, 50, 60}, out(12);
    engine->connectStream("in", in.data(), in.data() + 12);
    engine->connectStream("out", out.data(), out.data() + 12);
    engine->run();
    engine->run();
    for (std::size_t i = 0; i < 12; ++i) CHECK_EQ(out[i], in[i] * 27);
  });
}

TEST(cycles_and_memory) {
  const auto report = [](const std::function<void(Graph&, const VertexRef&, int)>& estimate, const char* type,
                         int vertices, unsigned stride) {
    Graph graph = NewGraph();
    const Tensor x = graph.addVariable(poplar::INT, {64}, "x");
    graph.setTileMapping(x, 0);
    const ComputeSet cs = graph.addComputeSet("cs");
    for (int i = 0; i < vertices; ++i) {
      const VertexRef v = graph.addVertex(cs, type);
      if (std::string(type) == "Six") {
        graph.connect(v["data"],
                      x.slice(static_cast<std::size_t>(i) * 4, static_cast<std::size_t>(i) * 4 + 4));
      } else {
        graph.connect(v["out"], x[static_cast<std::size_t>(i)]);
      }
      graph.setTileMapping(v, static_cast<unsigned>(i) * stride);
      estimate(graph, v, i);
    }
    return ReportOf(poplar::compileGraph(graph, {Execute(cs)}));
  };
  const auto twenty = [](Graph& g, const VertexRef& v, int) { g.setPerfEstimate(v, 20, 3); };
  // Six workers run in turn: one vertex takes six times its cycles, as six do.
  for (const auto& [n, cycles] :
       std::vector<std::pair<int, std::uint64_t>>{{1, 120}, {6, 120}, {7, 240}, {13, 360}}) {
    const Report r = report(twenty, "Counter", n, 0);
    CHECK_EQ(r.cycles.compute, cycles);
    CHECK_EQ(r.cycles.exchange, 0u);
    CHECK_EQ(r.flops, 3.0 * n);
    CHECK_EQ(r.operations.size(), 1u);
    CHECK_EQ(r.operations[0].kind, std::string("poplar::execute"));
    CHECK(r.operations[0].codelets == std::vector<std::string>{"Counter"});
    CHECK(r.operations[0].code_bytes > 0);
    // A pointer and a number each.
    CHECK_EQ(r.vertex_bytes, 8u * static_cast<unsigned>(n));
  }
  // On tiles of their own; tile 0 receives an element of each of the others.
  const Report apart = report(twenty, "Counter", 5, 1);
  CHECK_EQ(apart.cycles.compute, 120u);
  CHECK_EQ(apart.exchange_bytes, 4u * 4u);
  CHECK_EQ(apart.cycles.exchange, 4u);
  // MultiVertex: cycles of the tile. Its elements are on another tile, which sends and receives them.
  const Report multi = report(
      [](Graph& g, const VertexRef& v, int i) { g.setPerfEstimate(v, i == 0 ? 100 : 70); }, "Six", 2, 0);
  CHECK_EQ(multi.cycles.compute, 170u);
  const Report estimated = report(
      [](Graph& g, const VertexRef&, int) {
        g.registerPerfEstimator("Counter", [](const poplar::VertexIntrospector& v,
                                              const poplar::Target& target) {
          return poplar::VertexPerfEstimate(
              v.getFieldInfo("out").size() * 7 + v.getFieldInfo("calls").getInitialValues<int>(target).size(),
              5);
        });
      },
      "Counter", 1, 0);
  CHECK_EQ(estimated.cycles.compute, 42u);
  CHECK_EQ(estimated.flops, 5.0);
  const Report unknown = report([](Graph&, const VertexRef&, int) {}, "Counter", 1, 0);
  CHECK(unknown.operations[0].codelets ==
        std::vector<std::string>{"Counter (cycles: from the compiled loop)"});
  CHECK(unknown.cycles.compute > 0);
  // An estimator that wraps, as some of PopLibs' do for small sizes, is none.
  const Report wrapped = report(
      [](Graph& g, const VertexRef&, int) {
        g.registerPerfEstimator("Counter", [](const poplar::VertexIntrospector& v, const poplar::Target&) {
          return poplar::VertexPerfEstimate(6 * (v.getFieldInfo("out").size() - 16), 0);
        });
      },
      "Counter", 1, 0);
  CHECK(wrapped.operations[0].codelets == unknown.operations[0].codelets);
  CHECK_EQ(wrapped.cycles.compute, unknown.cycles.compute);
}

// A tile receives and sends each element once, in however many pieces and through however many fields its
// vertices read it.
TEST(exchange_of_pieces) {
  const auto exchange = [](std::size_t pieces) {
    Graph graph = NewGraph();
    const unsigned tiles = graph.getTarget().getNumTiles();
    const Tensor x = graph.addVariable(poplar::INT, {960}, "x");
    const Tensor sums = graph.addVariable(poplar::INT, {tiles, pieces}, "sums");
    graph.setTileMapping(x, 0);
    const ComputeSet cs = graph.addComputeSet("cs");
    for (unsigned tile = 0; tile < tiles; ++tile) {
      const VertexRef v = graph.addVertex(cs, "Weighted<int>");
      graph.connect(v["rows"], x.reshape({pieces, 960 / pieces}));
      graph.connect(v["sums"], sums[tile]);
      graph.setInitialValue(v["weights"], std::vector<int>(960 / pieces, 1));
      graph.setTileMapping(v, tile);
      graph.setTileMapping(sums[tile], tile);
      // The first of the row again, by another vertex.
      const VertexRef again = graph.addVertex(cs, "Scale");
      graph.connect(again["in"], x.slice(0, 7).reinterpret(poplar::FLOAT));
      graph.connect(again["out"],
                    graph.addVariable(poplar::FLOAT, {7}, poplar::VariableMappingMethod::LINEAR));
      graph.setTileMapping(again, tile);
    }
    const Report r = ReportOf(poplar::compileGraph(graph, {Execute(cs)}));
    CHECK_EQ(r.exchange_bytes % 4, 0u);
    return r.cycles.exchange;
  };
  const std::uint64_t whole = exchange(1);
  CHECK(whole >= 960 && whole < 1000);
  for (const std::size_t pieces : {2, 20, 960}) CHECK_EQ(exchange(pieces), whole);
}

TEST(stored_executables) {
  Graph graph = NewGraph();
  const Tensor x = graph.addVariable(poplar::FLOAT, {6}, "x"), y = graph.addVariable(poplar::FLOAT, {6}, "y");
  poputil::mapTensorLinearly(graph, x, 1, 1);
  poputil::mapTensorLinearly(graph, y, 1, 1);
  const ComputeSet cs = graph.addComputeSet("cs");
  const VertexRef v = graph.addVertex(cs, "Scale", {{"in", x}, {"out", y}});
  graph.setInitialValue(v["factor"], 4);
  graph.setTileMapping(v, 1);
  graph.createHostWrite("x", x);
  graph.createHostRead("y", y);
  const poplar::Executable made = poplar::compileGraph(graph, {Execute(cs)});
  // As stored by another process, with other codelets.
  std::string foreign = ipu_model::SerialiseContent(made);
  foreign.at(foreign.find("class Scale")) = 'C';
  CHECK(Contains(MessageOf<poplar::poplar_error>([&] { ipu_model::DeserialiseContent(foreign); }),
                 {"codelets = compile", "trust"}));
  // What this process has compiled itself needs no option.
  std::stringstream stored;
  made.serialize(stored);
  poplar::Executable::deserialize(stored);
  std::istringstream data(stored.str());
  const poplar::Executable loaded = poplar::Executable::deserialize(data, {{"codelets", "compile"}});
  for (const char* name : kEngines) {
    poplar::Engine engine(loaded, {{"execution", name}});
    engine.load();
    Write<float>(&engine, "x", {1, 2, 3, 4, 5, 6});
    engine.run();
    CHECK(Read<float>(&engine, "y", 6) == (std::vector<float>{4, 8, 12, 16, 20, 24}));
    CHECK_THROWS(poplar::poplar_error, engine.run(1));
  }
}

}  // namespace
}  // namespace ipu_model
