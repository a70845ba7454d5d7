// Vertices that are wrong, in both engines: errors name vertices and fields, while a graph is built, while it
// runs, and when a stored program is read.
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "check.h"
#include "core/operation/serialise.h"
#include "core/program/execute.h"
#include "engine/program/compiled_program.h"
#include "ipu_model/Model.hpp"
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
using toy::kEngines;
using toy::MessageOf;

const toy::CodeletCache cache;

// What a vertex does wrong, by number.
const char* const kBad = R"cpp(
#include <signal.h>
#include <unistd.h>
#include <cassert>
#include <cstdlib>
#include <cstring>
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
        case 17:
          in[1] = 8;
          break;
        case 18:
          reinterpret_cast<long long*>(&in[2])[0] = 8;
          break;
        case 10:
          [this]() noexcept { assert(what == 0); }();
          break;
        default:
          break;
      }
      return true;
    }
  };
)cpp";

Graph NewGraph() { return toy::NewGraph(std::string(toy::kCodelets) + kBad); }

// Errors while the graph is built and compiled. Calls `f` with a graph that has a compute set and two
// variables, x on tile 0 and y on tile 1, and compiles it.
void With(const std::function<void(Graph&, const ComputeSet&, const Tensor&, const Tensor&)>& f) {
  Graph graph = NewGraph();
  const Tensor x = graph.addVariable(poplar::FLOAT, {8}, "x"), y = graph.addVariable(poplar::FLOAT, {8}, "y");
  graph.setTileMapping(x, 0);
  graph.setTileMapping(y, 1);
  const ComputeSet cs = graph.addComputeSet("set");
  f(graph, cs, x, y);
  poplar::compileGraph(graph, {Execute(cs)});
}

TEST(connection_errors_name_vertices_and_fields) {
  const auto scale = [](Graph& graph, const ComputeSet& cs, const Tensor& in, const Tensor& out) {
    const VertexRef v = graph.addVertex(cs, "Scale", {{"in", in}, {"out", out}});
    graph.setTileMapping(v, 2);
  };
  using poplar::graph_connection_error;
  const auto connection = [&](const auto& f) { return MessageOf<graph_connection_error>([&] { With(f); }); };
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
}

TEST(unknown_names_are_answered_with_the_known) {
  CHECK(Contains(MessageOf<poplar::unknown_field>([&] {
                   With([](auto& g, auto& cs, auto&, auto&) {
                     g.setInitialValue(g.addVertex(cs, "Scale")["facto"], 1);
                   });
                 }),
                 {"'facto'", "in, out, factor"}));
  CHECK(Contains(MessageOf<poplar::unknown_vertex_type>(
                     [&] { With([](auto& g, auto& cs, auto&, auto&) { g.addVertex(cs, "Scal"); }); }),
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
}

TEST(mapping_errors_name_vertices_and_tiles) {
  CHECK(Contains(MessageOf<poplar::invalid_tile_mapping>([&] {
                   With([](auto& g, auto& cs, auto& x, auto& y) {
                     g.addVertex(cs, "Scale", {{"in", x}, {"out", y}});
                   });
                 }),
                 {"vertex 0", "no tile", "setTileMapping"}));
  CHECK(Contains(MessageOf<poplar::invalid_tile_mapping>([&] {
                   With([](auto& g, auto& cs, auto&, auto&) {
                     g.setTileMapping(g.addVertex(cs, "Scale"), 16);
                   });
                 }),
                 {"tile 16", "16 tiles"}));
  CHECK(Contains(MessageOf<poplar::poplar_error>(
                     [&] { With([](auto& g, auto&, auto&, auto&) { g.addCodelets("codelets.gp"); }); }),
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
  for (const int input : {3, 17, 18})
    CHECK(Contains(run(input, "tile"), {"vertex 1", "writes to its input 'in'"}));
  CHECK(Contains(run(11, "tile"), {"vertex 1", "'out' of 4 elements", "4997 after the last"}));
  CHECK(Contains(run(12, "tile"), {"vertex 1", "'out' of 4 elements", "100000 before the first"}));
  CHECK(Contains(run(13, "tile"), {"vertex 1", "'in' of 4 elements", "3 before the first"}));
  // In a process of its own a vertex may do anything, in both engines.
  setenv("JAX_IPU_CODELETS", "isolated", 1);
  for (const char* engine : kEngines) {
    CHECK(Contains(run(0, engine), {"no error"}));
    CHECK(Contains(run(1, engine),
                   {"vertex 1", "'bad'", "Bad, tile 5", "'out' of 4 elements", "3 after the last"}));
    for (const int input : {3, 17, 18})
      CHECK(Contains(run(input, engine), {"vertex 1", "writes to its input 'in'"}));
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

// Elements of inputs are no constants of the compiler's: codelets cast their addresses to pointers to pairs.
TEST(inputs_are_read_through_casts) {
  constexpr char kCasts[] = R"cpp(
    struct Casts : public Vertex {
      Input<Vector<float, VectorLayout::ONE_PTR, 8>> a;
      Vector<Input<Vector<float, VectorLayout::SPAN, 8>>> b;
      Input<VectorList<float, VectorListLayout::DELTANELEMENTS, 8>> c;
      const Input<Vector<float>> d;
      Output<Vector<float, VectorLayout::SPAN, 8>> out;
      bool compute() {
        static_assert(!std::is_const_v<std::remove_reference_t<decltype(a[0])>>);
        static_assert(!std::is_const_v<std::remove_reference_t<decltype(b[0][0])>>);
        static_assert(!std::is_const_v<std::remove_reference_t<decltype(c[0][0])>>);
        static_assert(std::is_const_v<std::remove_reference_t<decltype(d[0])>>);
        struct Pair {
          float x, y;
        };
        Pair *pa = reinterpret_cast<Pair*>(&a[0]), *pb = (Pair*)&b[0][0], *pc = reinterpret_cast<Pair*>(&c[0][0]);
        Pair* po = reinterpret_cast<Pair*>(&out[0]);
        for (unsigned i = 0; i < out.size() / 2; ++i) {
          po[i].x = pa[i].x + 10 * pb[i].x + 100 * pc[i].x + 1000 * d[2 * i];
          po[i].y = pa[i].y + 10 * pb[i].y + 100 * pc[i].y + 1000 * (*d)[2 * i + 1];
        }
        const auto& row = b[0];
        static_assert(std::is_const_v<std::remove_reference_t<decltype(row[0])>>);
        for (float& x : *b[0]) po[0].x += x;
        for (float* p = c[0].begin(); p != c[0].end(); ++p) po[0].y += *p;
        return a->data() == &*a->begin() && b[0].back() == b[0].front();
      }
    };)cpp";
  for (const char* engine_name : kEngines) {
    Graph graph = toy::NewGraph(std::string(toy::kCodelets) + kCasts);
    const Tensor x = graph.addVariable(poplar::FLOAT, {16}, "x"),
                 y = graph.addVariable(poplar::FLOAT, {4}, "y");
    graph.setTileMapping(x, 0);
    graph.setTileMapping(y, 0);
    const ComputeSet cs = graph.addComputeSet("casts");
    const VertexRef v =
        graph.addVertex(cs, "Casts", {{"a", x.slice(0, 4)}, {"d", x.slice(12, 16)}, {"out", y}});
    graph.connect(v["b"], std::vector<Tensor>{x.slice(4, 8)});
    graph.connect(v["c"], std::vector<Tensor>{x.slice(8, 12)});
    graph.setTileMapping(v, 1);
    graph.createHostWrite("x", x);
    graph.createHostRead("y", y);
    poplar::Engine engine(graph, Execute(cs), {{"execution", engine_name}});
    engine.load();
    std::vector<float> in(16), out(4);
    for (std::size_t i = 0; i < 16; ++i) in[i] = static_cast<float>(i % 5);
    engine.writeTensor("x", in.data(), in.data() + in.size());
    engine.run();
    engine.readTensor("y", out.data(), out.data() + out.size());
    for (std::size_t i = 0; i < 4; ++i) {
      float expected = in[i] + 10 * in[4 + i] + 100 * in[8 + i] + 1000 * in[12 + i];
      for (std::size_t k = 0; k < 4 && i < 2; ++k) expected += in[(i == 0 ? 4 : 8) + k];
      CHECK_EQ(out[i], expected);
    }
  }
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
      // Every segment of an edge that does not lie together is read once here.
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

}  // namespace
}  // namespace ipu_model
