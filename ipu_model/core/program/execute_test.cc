// Compute sets of explicit vertices, in both engines: values, edges of every form, errors with names, cycles,
// stored executables.
#include "core/program/execute.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <sstream>

#include "check.h"
#include "core/operation/serialise.h"
#include "engine/program/compiled_program.h"
#include "ipu_model/Model.hpp"
#include "ipu_model/Stored.hpp"
#include "poplar/Engine.hpp"
#include "poplar/exceptions.hpp"
#include "poputil/TileMapping.hpp"
#include "testing/codelet_cache.h"

namespace ipu_model {
namespace {

using poplar::ComputeSet;
using poplar::Graph;
using poplar::OptionFlags;
using poplar::Tensor;
using poplar::VertexRef;
using poplar::program::Execute;
using poplar::program::Sequence;

const toy::CodeletCache cache;

const char* const kCodelets = R"cpp(
#include <ipudef.h>
#include <signal.h>
#include <unistd.h>
#include <cassert>
#include <cstdlib>
#include <cstring>
#include <poplar/HalfFloat.hpp>
#include <poplar/Vertex.hpp>
  using namespace poplar;

  class Adder : public Vertex {
   public:
    Input<float> x;
    Input<float> y;
    Output<float> sum;
    bool compute() {
      *sum = x + y;
      return true;
    }
  };

  class Scale : public Vertex {
   public:
    Input<Vector<float>> in;
    Output<Vector<float>> out;
    float factor = 2;
    bool compute() {
      for (unsigned i = 0; i < out.size(); ++i) out[i] = in[i] * factor;
      return true;
    }
  };

  template <typename T>
  class Weighted : public Vertex {
   public:
    Vector<Input<Vector<T>>> rows;
    Vector<T> weights;
    Vector<Output<T>> sums;
    bool compute() {
      for (unsigned i = 0; i < rows.size(); ++i) {
        T sum = 0;
        for (unsigned j = 0; j < rows[i].size(); ++j) sum += rows[i][j] * weights[j];
        *sums[i] = sum;
      }
      return true;
    }
  };
  template class Weighted<int>;
  template class Weighted<half>;

  class Six : public MultiVertex {
   public:
    InOut<Vector<int>> data;
    bool compute(unsigned worker) {
      for (unsigned i = worker; i < data.size(); i += numWorkers()) data[i] += 10 * static_cast<int>(worker);
      return true;
    }
  };

  class Counter : public Vertex {
   public:
    Output<int> out;
    int calls;
    bool compute() {
      *out = ++calls;
      return true;
    }
  };

  class Wide : public Vertex {
   public:
    Input<Vector<float, VectorLayout::ONE_PTR, 8>> in;
    Output<Vector<float, VectorLayout::SPAN, 8>> out;
    bool compute() {
      const float2* pairs = reinterpret_cast<const float2*>(&in[0]);
      if (reinterpret_cast<unsigned long>(pairs) % 8 != 0) return false;
      for (unsigned i = 0; i < out.size(); ++i) out[i] = pairs[i / 2][i % 2] + 1;
      return true;
    }
  };

  class Bad : public Vertex {
   public:
    Input<Vector<int>> in;
    Output<Vector<int>> out;
    int what;
    bool compute() {
      for (unsigned i = 0; i < out.size(); ++i) out[i] = in[i];
      volatile int zero = 0;
      volatile unsigned turns = 0;
      switch (what) {
        case 1:
          out[out.size() + 2] = 7;
          break;
        case 2:
          out[-1] = 7;
          break;
        case 3:
          const_cast<int&>(in[0]) = 8;
          break;
        case 4:
          while (true) turns = turns + 1;
        case 5:
          out[0] = what / zero;
          break;
        case 6:
          out[0] = *reinterpret_cast<volatile int*>(16);
          break;
        case 7:
          throw 3;
        case 8:
          assert(what == zero && "unlike");
          break;
        case 9:
          abort();
        case 11:
          out[5000] = 7;
          break;
        case 12:
          out[-100000] = 7;
          break;
        case 13:
          const_cast<int&>(in[-3]) = 8;
          break;
        case 14:
          kill(getpid(), SIGKILL);
          break;
        case 15:
          exit(0);
        case 16: {
          char* volatile small = static_cast<char*>(malloc(16));
          memset(small, 1, 4096);
          abort();
        }
        case 10:
          [this]() noexcept { assert(what == 0); }();
          break;
        default:
          break;
      }
      return true;
    }
  };

  class Mix : public Vertex {
   public:
    Vector<Input<Vector<int>>> in;
    InOut<Vector<int>> io;
    Output<Vector<int>> out;
    unsigned k;
    bool compute() {
      for (unsigned i = 0; i < out.size(); ++i) {
        unsigned sum = k;
        for (unsigned e = 0; e < in.size(); ++e)
          if (in[e].size() > 0) sum += static_cast<unsigned>(in[e][(i * 7 + e) % in[e].size()]) * (e + 1);
        out[i] = static_cast<int>(sum);
      }
      for (unsigned i = 0; i < io.size(); ++i) io[i] = static_cast<int>(static_cast<unsigned>(io[i]) * 3 + k);
      return true;
    }
  };
)cpp";

Graph NewGraph(unsigned tiles = 16) {
  Graph graph(poplar::Target::createIPUTarget(1, tiles, "ipu2"));
  std::istringstream text(kCodelets);
  graph.addCodelets(text);
  return graph;
}

constexpr const char* kEngines[] = {"fast", "tile"};

// Calls `check` for an engine of each kind, with the streams not yet connected.
void InBoth(const Graph& graph, const Sequence& program, const std::function<void(poplar::Engine*)>& check,
            const OptionFlags& more = {}) {
  for (const char* name : kEngines) {
    OptionFlags options = more;
    options.set("execution", name);
    poplar::Engine engine(graph, program, options);
    engine.load();
    check(&engine);
  }
}

template <typename T>
std::vector<T> Read(poplar::Engine* engine, const std::string& handle, std::size_t n) {
  std::vector<T> values(n);
  engine->readTensor(handle, values.data(), values.data() + n);
  return values;
}
template <typename T>
void Write(poplar::Engine* engine, const std::string& handle, const std::vector<T>& values) {
  engine->writeTensor(handle, values.data(), values.data() + values.size());
}

template <typename Error>
std::string MessageOf(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string("another type of error: ") + error.what();
  }
  return "no error";
}

bool Contains(const std::string& text, const std::vector<std::string>& parts) {
  const bool all = std::all_of(parts.begin(), parts.end(),
                               [&](const std::string& part) { return text.find(part) != std::string::npos; });
  if (!all) std::fprintf(stderr, "the message is: %s\n", text.c_str());
  return all;
}

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

// Errors while the graph is built and compiled.
TEST(errors_name_vertices_and_fields) {
  const auto with =
      [](const std::function<void(Graph&, const ComputeSet&, const Tensor&, const Tensor&)>& f) {
        Graph graph = NewGraph();
        const Tensor x = graph.addVariable(poplar::FLOAT, {8}, "x"),
                     y = graph.addVariable(poplar::FLOAT, {8}, "y");
        graph.setTileMapping(x, 0);
        graph.setTileMapping(y, 1);
        const ComputeSet cs = graph.addComputeSet("set");
        f(graph, cs, x, y);
        poplar::compileGraph(graph, {Execute(cs)});
      };
  const auto scale = [](Graph& graph, const ComputeSet& cs, const Tensor& in, const Tensor& out) {
    const VertexRef v = graph.addVertex(cs, "Scale", {{"in", in}, {"out", out}});
    graph.setTileMapping(v, 2);
  };
  using poplar::graph_connection_error;
  const auto connection = [&](const auto& f) { return MessageOf<graph_connection_error>([&] { with(f); }); };
  CHECK(Contains(connection([&](auto& g, auto& cs, auto& x, auto& y) {
                   scale(g, cs, x.slice(0, 4), y.slice(0, 4));
                   scale(g, cs, x.slice(0, 4), y.slice(3, 8));
                 }),
                 {"vertex 0", "vertex 1", "both write element 3", "'y'", "Scale", "set", "'out'"}));
  CHECK(Contains(connection([&](auto& g, auto& cs, auto& x, auto& y) {
                   scale(g, cs, x.slice(0, 4), y.slice(0, 4));
                   scale(g, cs, y.slice(2, 4), x.slice(4, 8));
                 }),
                 {"vertex 1", "'in'", "reads element 2", "'y'", "vertex 0", "writes"}));
  CHECK(Contains(
      connection([&](auto& g, auto& cs, auto& x, auto&) { scale(g, cs, x.slice(0, 4), x.slice(2, 6)); }),
      {"vertex 0", "reads element 2", "'x'"}));
  CHECK(Contains(connection([&](auto& g, auto& cs, auto& x, auto& y) {
                   scale(g, cs, x.slice(0, 2), y.slice(0, 1).broadcast(2, 0));
                 }),
                 {"both write element 0"}));
  CHECK(Contains(connection([&](auto& g, auto& cs, auto& x, auto&) {
                   g.setTileMapping(g.addVertex(cs, "Scale", {{"in", x}}), 0);
                 }),
                 {"'out'", "not connected", "vertex 0", "Scale"}));
  CHECK(Contains(connection([&](auto& g, auto& cs, auto&, auto&) {
                   const VertexRef v = g.addVertex(cs, "Weighted<int>");
                   g.setFieldSize(v["rows"], 2);
                   g.setTileMapping(v, 0);
                 }),
                 {"edge 0", "'rows'", "not connected"}));
  CHECK(
      Contains(connection([&](auto& g, auto& cs, auto& x, auto&) { g.addVertex(cs, "Six", {{"data", x}}); }),
               {"'data'", "int", "float"}));
  CHECK(Contains(connection([&](auto& g, auto& cs, auto& x, auto&) { g.addVertex(cs, "Adder", {{"x", x}}); }),
                 {"'x'", "one element"}));
  CHECK(Contains(connection([&](auto& g, auto& cs, auto& x, auto&) {
                   g.addVertex(cs, "Adder", {{"x", x[0]}, {"x", x[1]}});
                 }),
                 {"'x'", "connected already"}));
  CHECK(Contains(
      connection([&](auto& g, auto& cs, auto& x, auto&) { g.addVertex(cs, "Scale", {{"factor", x}}); }),
      {"'factor'", "setInitialValue"}));
  CHECK(Contains(connection([&](auto& g, auto& cs, auto&, auto&) {
                   g.setInitialValue(g.addVertex(cs, "Scale")["in"], 1);
                 }),
                 {"'in'", "connect"}));
  CHECK(Contains(connection([&](auto& g, auto& cs, auto&, auto&) {
                   g.setInitialValue(g.addVertex(cs, "Counter")["calls"], 1ll << 40);
                 }),
                 {"'calls'", "does not fit"}));
  CHECK(Contains(connection([&](auto& g, auto& cs, auto& x, auto&) {
                   const std::vector<float> one = {1, 2};
                   const Tensor c = g.addConstant(poplar::FLOAT, {2}, one, "fixed");
                   g.setTileMapping(c, 0);
                   scale(g, cs, x.slice(0, 2), c);
                 }),
                 {"writes the constant 'fixed'", "'out'"}));
  CHECK(Contains(MessageOf<poplar::unknown_field>([&] {
                   with([](auto& g, auto& cs, auto&, auto&) {
                     g.setInitialValue(g.addVertex(cs, "Scale")["facto"], 1);
                   });
                 }),
                 {"'facto'", "in, out, factor"}));
  CHECK(Contains(MessageOf<poplar::unknown_vertex_type>(
                     [&] { with([](auto& g, auto& cs, auto&, auto&) { g.addVertex(cs, "Scal"); }); }),
                 {"'Scal'", "Weighted<half>"}));
  // Of many classes only those with the most similar names.
  Graph many = NewGraph();
  std::string text = "#include <poplar/Vertex.hpp>\n";
  for (int i = 0; i < 12; ++i) {
    const std::string name = (i < 10 ? "Similar" : "Other") + std::to_string(i);
    text += "class " + name + " : public poplar::Vertex { public: void compute() {} };\n";
  }
  std::istringstream source(text);
  many.addCodelets(source);
  const std::string message =
      MessageOf<poplar::unknown_vertex_type>([&] { many.addVertex(many.addComputeSet(), "Similar"); });
  CHECK(Contains(message, {"'Similar'", "nearest", "Similar0, Similar1", "Similar9"}));
  for (const char* other : {"Other", "Weighted"}) CHECK(message.find(other) == std::string::npos);
  CHECK(Contains(MessageOf<poplar::invalid_tile_mapping>([&] {
                   with([](auto& g, auto& cs, auto& x, auto& y) {
                     g.addVertex(cs, "Scale", {{"in", x}, {"out", y}});
                   });
                 }),
                 {"vertex 0", "no tile", "setTileMapping"}));
  CHECK(Contains(MessageOf<poplar::invalid_tile_mapping>([&] {
                   with([](auto& g, auto& cs, auto&, auto&) {
                     g.setTileMapping(g.addVertex(cs, "Scale"), 16);
                   });
                 }),
                 {"tile 16", "16 tiles"}));
  CHECK(Contains(MessageOf<poplar::poplar_error>(
                     [&] { with([](auto& g, auto&, auto&, auto&) { g.addCodelets("codelets.gp"); }); }),
                 {"codelets.gp", "cannot read"}));
}

// What vertices do wrong while they run.
TEST(bad_vertices_end_with_an_error) {
  const auto run = [](int what, const char* engine_name) {
    Graph graph = NewGraph();
    const Tensor x = graph.addVariable(poplar::INT, {64}, "x"), y = graph.addVariable(poplar::INT, {64}, "y");
    graph.setTileMapping(x, 0);
    graph.setTileMapping(y, 0);
    const ComputeSet cs = graph.addComputeSet("bad");
    for (int i = 0; i < 2; ++i) {
      const VertexRef v =
          graph.addVertex(cs, "Bad", {{"in", x.slice(16, 20)}, {"out", y.slice(16 + 8 * i, 20 + 8 * i)}});
      graph.setInitialValue(v["what"], i == 1 ? what : 0);
      graph.setTileMapping(v, 5);
    }
    poplar::Engine engine(graph, Execute(cs), {{"execution", engine_name}, {"vertexTimeLimit", "0.05"}});
    engine.load();
    return MessageOf<poplar::runtime_error>([&] { engine.run(); });
  };
  for (const char* engine : kEngines) {
    CHECK(Contains(run(0, engine), {"no error"}));
    CHECK(Contains(run(4, engine), {"vertex 1", "'bad'", "Bad, tile 5", "0.05 s", "vertexTimeLimit"}));
    CHECK(Contains(run(5, engine), {"vertex 1", "by zero"}));
    CHECK(Contains(run(6, engine), {"vertex 1", "memory that it does not have"}));
    CHECK(Contains(run(7, engine), {"vertex 1", "exception"}));
    CHECK(
        Contains(run(8, engine), {"vertex 1", "codelets:", "assertion 'what == zero && \"unlike\"' failed"}));
    CHECK(Contains(run(9, engine), {"vertex 1", "abort()"}));
    CHECK(Contains(run(10, engine), {"vertex 1", "abort()"}));
  }
  // Only the tile engine has memory of its own for each edge.
  CHECK(Contains(run(1, "tile"), {"vertex 1", "'out' of 4 elements", "3 after the last"}));
  CHECK(Contains(run(2, "tile"), {"vertex 1", "'out'", "1 before the first"}));
  CHECK(Contains(run(3, "tile"), {"vertex 1", "writes to its input 'in'"}));
  CHECK(Contains(run(11, "tile"), {"vertex 1", "'out' of 4 elements", "4997 after the last"}));
  CHECK(Contains(run(12, "tile"), {"vertex 1", "'out' of 4 elements", "100000 before the first"}));
  CHECK(Contains(run(13, "tile"), {"vertex 1", "'in' of 4 elements", "3 before the first"}));
  // In a process of its own a vertex may do anything, in both engines.
  setenv("JAX_IPU_CODELETS", "isolated", 1);
  for (const char* engine : kEngines) {
    CHECK(Contains(run(0, engine), {"no error"}));
    CHECK(Contains(run(1, engine),
                   {"vertex 1", "'bad'", "Bad, tile 5", "'out' of 4 elements", "3 after the last"}));
    CHECK(Contains(run(3, engine), {"vertex 1", "writes to its input 'in'"}));
    CHECK(Contains(run(4, engine), {"vertex 1", "0.05 s", "vertexTimeLimit"}));
    CHECK(Contains(run(6, engine), {"vertex 1", "memory that it does not have"}));
    CHECK(Contains(run(12, engine), {"vertex 1", "100000 before the first"}));
    CHECK(Contains(run(14, engine), {"vertex 1", "'bad'", "Bad, tile 5", "ended its process: Killed"}));
    CHECK(Contains(run(15, engine), {"vertex 1", "'bad'", "Bad, tile 5", "called exit()"}));
    CHECK(Contains(run(16, engine), {"vertex 1", "'bad'", "Bad, tile 5", "abort()"}));
  }
  setenv("JAX_IPU_CODELETS", "alone", 1);
  CHECK(Contains(run(0, "fast"), {"another type of error", "JAX_IPU_CODELETS", "'alone'"}));
  unsetenv("JAX_IPU_CODELETS");
}

TEST(isolated_vertices_compute_the_same) {
  const auto run = [](const char* engine_name, bool isolated) {
    Graph graph = NewGraph();
    const Tensor x = graph.addVariable(poplar::FLOAT, {64}, "x"),
                 y = graph.addVariable(poplar::FLOAT, {64}, "y");
    graph.setTileMapping(x, 0);
    graph.setTileMapping(y, 1);
    const ComputeSet cs = graph.addComputeSet("scale");
    // Elements that lie together, and some that do not.
    graph.setTileMapping(graph.addVertex(cs, "Scale", {{"in", x.slice(0, 8)}, {"out", y.slice(32, 40)}}), 1);
    const Tensor steps = y.slice(0, 32).reshape({8, 4}).slice(1, 2, 1).flatten();
    graph.setTileMapping(graph.addVertex(cs, "Scale", {{"in", x.slice(8, 16).reverse(0)}, {"out", steps}}),
                         0);
    graph.createHostWrite("x", x);
    graph.createHostRead("y", y);
    poplar::Engine engine(graph, Sequence{Execute(cs), Execute(cs)}, {{"execution", engine_name}});
    engine.load();
    std::vector<float> in(64), out(64);
    std::iota(in.begin(), in.end(), 1.0f);
    engine.writeTensor("x", in.data(), in.data() + 64);
    if (isolated) setenv("JAX_IPU_CODELETS", "isolated", 1);
    engine.run();
    unsetenv("JAX_IPU_CODELETS");
    engine.readTensor("y", out.data(), out.data() + 64);
    return out;
  };
  const std::vector<float> expected = run("fast", false);
  CHECK_EQ(expected[33], 4.0f);
  CHECK_EQ(expected[1], 32.0f);
  for (const char* engine : kEngines) CHECK(run(engine, true) == expected);
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

// What is accepted of damaged vertices refers to their own operands only.
TEST(damaged_vertices) {
  Graph graph = NewGraph();
  const Tensor x = graph.addVariable(poplar::INT, {12}, "x"), y = graph.addVariable(poplar::INT, {12}, "y");
  poputil::mapTensorLinearly(graph, x, 1, 1);
  poputil::mapTensorLinearly(graph, y, 1, 1);
  const ComputeSet cs = graph.addComputeSet("cs");
  const VertexRef v = graph.addVertex(cs, "Weighted<int>");
  graph.connect(v["rows"], x.reshape({3, 4}));
  graph.connect(v["sums"], y.slice(2, 5));
  graph.setInitialValue(v["weights"], {1, 2, 3, 4});
  const VertexRef w = graph.addVertex(cs, "Six", {{"data", y.slice(6, 10)}});
  graph.setTileMapping(v, 1);
  graph.setTileMapping(w, 2);
  const auto program = poplar::compileGraph(graph, {Execute(cs)}).program();
  const auto& whole = dynamic_cast<const ipu_model::Execute&>(*program->programs[0]->operation);
  Writer writer;
  whole.Write(writer);
  std::vector<std::int32_t> memory(64);
  const auto tensors = [&memory](const std::vector<View>& views) {
    std::vector<HostTensor> result;
    for (const View& view : views) {
      HostTensor t;
      t.data = memory.data() + view.offset;
      t.type = view.type;
      t.rank = 1;
      t.shape[0] = view.shape[0];
      t.strides[0] = 1;
      result.push_back(t);
    }
    return result;
  };
  const std::vector<HostTensor> in = tensors(whole.inputs), out = tensors(whole.outputs);
  std::mt19937 random(3);
  int accepted = 0, refused = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string data = writer.data();
    for (unsigned n = round == 0 ? 0 : 1 + static_cast<unsigned>(random() % 3); n > 0; --n)
      data[random() % data.size()] = static_cast<char>(random() % 3 == 0 ? random() : random() % 16);
    try {
      Reader reader(data);
      const std::unique_ptr<Operation> read = ReadExecute(reader);
      read->inputs = whole.inputs;
      read->outputs = whole.outputs;
      dynamic_cast<ipu_model::Execute&>(*read).Attach(program->codelets);
      if (!read->OperandsFit(16)) throw SerialiseError("does not fit");
      // Every run of an edge that does not lie together is read once here.
      const std::unique_ptr<BoundKernel> kernel = read->Bind(in, out);
      kernel->Point(in.data(), out.data(), nullptr);
      ++accepted;
    } catch (const SerialiseError&) {
      CHECK(round > 0);
      ++refused;
    }
  }
  CHECK(accepted > 100 && refused > 100);
}

// Random vertices with random edges equal a reference.
TEST(random_compute_sets) {
  std::mt19937 random(7);
  const auto below = [&random](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  for (int round = 0; round < 12; ++round) {
    constexpr std::size_t kRows = 6, kColumns = 8, kSize = kRows * kColumns;
    Graph graph = NewGraph();
    std::vector<Tensor> variables;
    for (const char* name : {"a", "b", "out"}) {
      variables.push_back(graph.addVariable(poplar::INT, {kRows, kColumns}, name));
      Graph::TileToTensorMapping mapping(16);
      for (std::size_t begin = 0; begin < kSize;) {
        const std::size_t end = std::min(kSize, begin + 1 + below(9));
        mapping[below(16)].emplace_back(begin, end);
        begin = end;
      }
      graph.setTileMapping(variables.back(), mapping);
      graph.createHostWrite(name, variables.back());
      graph.createHostRead(name, variables.back());
    }
    // A tensor of numbers stands for the elements: the same views of both.
    const auto random_view = [&](Tensor t) {
      for (int step = 0; step < 3; ++step) {
        const auto d = static_cast<unsigned>(below(t.rank()));
        switch (below(5)) {
          case 0:
            t = t.dimShuffle(t.rank() == 2 ? std::vector<unsigned>{1, 0} : std::vector<unsigned>{0});
            break;
          case 1:
            t = t.reverse(d);
            break;
          case 2: {
            const std::size_t begin = below(t.dim(d)), end = begin + 1 + below(t.dim(d) - begin);
            t = t.slice(begin, end, d);
            break;
          }
          case 3:
            t = t.subSample(1 + static_cast<unsigned>(below(3)), d);
            break;
          default:
            t = t.flatten();
        }
      }
      return t;
    };
    const auto elements_of = [](const Tensor& t) {
      std::vector<std::size_t> elements;
      for (const View& v : t.pieces()) {
        const Box box = Box::Whole(v.shape);
        for (std::int64_t i = 0; i < box.num_elements(); ++i) {
          std::int64_t rest = i, at = v.offset;
          for (std::size_t d = v.shape.size(); d-- > 0; rest /= v.shape[d])
            at += rest % v.shape[d] * v.strides[d];
          elements.push_back(static_cast<std::size_t>(at));
        }
      }
      return elements;
    };
    // The elements of b and out, in a random order, are divided among the vertices.
    std::vector<std::size_t> order(kSize);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::shuffle(order.begin(), order.end(), random);
    std::size_t taken = 0;
    struct Expected {
      std::vector<std::vector<std::size_t>> in;
      std::vector<std::size_t> own;
      unsigned k;
    };
    std::vector<Expected> vertices;
    const ComputeSet cs = graph.addComputeSet("mix");
    while (taken < kSize) {
      Expected e;
      const VertexRef v = graph.addVertex(cs, "Mix");
      const std::size_t count = std::min(kSize - taken, below(12));
      e.own.assign(order.begin() + static_cast<std::ptrdiff_t>(taken),
                   order.begin() + static_cast<std::ptrdiff_t>(taken + count));
      if (below(2) == 0) std::sort(e.own.begin(), e.own.end());
      taken += count;
      std::vector<Tensor> io, out;
      for (const std::size_t at : e.own) {
        io.push_back(variables[1].flatten().slice(at, at + 1));
        out.push_back(variables[2].flatten().slice(at, at + 1));
      }
      if (e.own.empty()) io = out = {variables[1].flatten().slice(0, 0)};
      graph.connect(v["io"], io);
      graph.connect(v["out"], out);
      std::vector<Tensor> in;
      for (std::size_t n = below(4); n > 0; --n) {
        in.push_back(random_view(variables[0]));
        if (below(3) == 0) in.back() = concat(in.back().flatten(), random_view(variables[0]).flatten());
        e.in.push_back(elements_of(in.back()));
      }
      graph.connect(v["in"], in);
      e.k = static_cast<unsigned>(below(1000));
      graph.setInitialValue(v["k"], e.k);
      graph.setTileMapping(v, static_cast<unsigned>(below(16)));
      vertices.push_back(std::move(e));
    }
    std::vector<int> a(kSize), b(kSize);
    for (int& x : a) x = static_cast<int>(random() % 2001) - 1000;
    for (int& x : b) x = static_cast<int>(random() % 2001) - 1000;
    std::vector<int> want_b = b, want_out(kSize);
    for (const Expected& e : vertices) {
      for (std::size_t i = 0; i < e.own.size(); ++i) {
        unsigned sum = e.k;
        for (std::size_t n = 0; n < e.in.size(); ++n)
          sum +=
              static_cast<unsigned>(a[e.in[n][(i * 7 + n) % e.in[n].size()]]) * static_cast<unsigned>(n + 1);
        want_out[e.own[i]] = static_cast<int>(sum);
        want_b[e.own[i]] = static_cast<int>(static_cast<unsigned>(want_b[e.own[i]]) * 3 + e.k);
      }
    }
    InBoth(graph, Sequence({Execute(cs)}), [&](poplar::Engine* engine) {
      Write(engine, "a", a);
      Write(engine, "b", b);
      engine->run();
      CHECK(Read<int>(engine, "a", kSize) == a);
      CHECK(Read<int>(engine, "b", kSize) == want_b);
      CHECK(Read<int>(engine, "out", kSize) == want_out);
    });
  }
}

}  // namespace
}  // namespace ipu_model

int main() { return jax_ipu::testing::RunTests(); }
