// The types of codelets that the host's compiler does not have as the device has them: half, quarter, long
// long.
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "check.h"
#include "core/program/execute.h"
#include "poplar/Engine.hpp"
#include "poplar/MetadataCreation.hpp"
#include "poplar/exceptions.hpp"
#include "testing/codelet_cache.h"

namespace ipu_model {
namespace {

using poplar::ComputeSet;
using poplar::Engine;
using poplar::Graph;
using poplar::QuarterMetadata;
using poplar::Tensor;
using poplar::VertexRef;
using poplar::program::Execute;
using poplar::program::Sequence;
using Format = QuarterMetadata::Format;

const toy::CodeletCache cache;

const char* const kCodelets = R"cpp(
#include <ipu_vector_math>
#include <limits>
#include <poplar/Vertex.hpp>
  using namespace poplar;

  class Limits : public Vertex {
   public:
    Output<Vector<half>> out;
    bool compute() {
      using L = std::numeric_limits<half>;
      const half values[] = {L::lowest(), L::max(), L::infinity(), L::min(), L::epsilon(), L::denorm_min()};
      for (unsigned i = 0; i < out.size(); ++i) out[i] = values[i];
      return L::is_specialized && !L::is_integer;
    }
  };

  // Mathematics of scalars and vectors.
  class Mathematics : public Vertex {
   public:
    Output<Vector<float>> out;
    bool compute() {
      const half4 a = {1, -2, 3, -4}, b = {2, 1, -3, 5};
      const half4 largest = ipu::max(a, b), smallest = ipu::min(a, b), sums = ipu::absadd(a, b);
      const half4 limited = ipu::clamp(a, half2{-1, 2});
      const float2 pairs = ipu::sum(a), roots = ipu::sqrt(float2{4, 9}),
                   between = ipu::clamp(pairs, float2{-0.5f, 5});
      const float values[] = {ipu::max(1.0f, 2.0f),
                              ipu::clamp(7.0f, float2{0, 6}),
                              float(largest[2]),
                              float(smallest[3]),
                              float(sums[3]),
                              float(limited[2]),
                              float(limited[3]),
                              pairs[0],
                              pairs[1],
                              ipu::sum(half2{1, 2}),
                              roots[1],
                              between[0]};
      for (unsigned i = 0; i < out.size(); ++i) out[i] = values[i];
      return true;
    }
  };

  class Absolute : public Vertex {
   public:
    Input<Vector<long long>> in;
    Output<Vector<long long>> out;
    bool compute() {
      for (unsigned i = 0; i < out.size(); ++i) out[i] = abs(in[i]);
      return true;
    }
  };

  class ToQuarter : public Vertex {
   public:
    Input<Vector<half>> in;
    Output<Vector<quarter, VectorLayout::SPAN, 4>> out;
    bool compute() {
      for (unsigned i = 0; i < out.size(); ++i)
        out[i] = toQuarter(static_cast<float>(in[i]), unpackMetadata(out.getMetadata()));
      return true;
    }
  };

  class FromQuarter : public Vertex {
   public:
    Vector<Input<Vector<quarter>>> rows;
    Input<quarter> one;
    Output<Vector<half>> out;
    bool compute() {
      unsigned n = 0;
      if (rows.getMetadata() != rows[0].getMetadata()) return false;
      for (unsigned r = 0; r < rows.size(); ++r)
        for (quarter x : rows[r]) out[n++] = toHalf(x, unpackMetadata(rows[r].getMetadata()));
      out[n] = toHalf(*one, unpackMetadata(one.getMetadata()));
      return true;
    }
  };
)cpp";

Graph NewGraph() {
  Graph graph(poplar::Target::createIPUTarget(1, 4, "ipu2"));
  std::istringstream text(kCodelets);
  graph.addCodelets(text);
  return graph;
}

// The contents of the variable "out" after the program, in both engines.
template <typename T>
void CheckOut(const Graph& graph, const Sequence& program, const std::vector<T>& expected) {
  for (const char* name : {"fast", "tile"}) {
    Engine engine(graph, program, {{"execution", name}});
    engine.load();
    engine.run();
    std::vector<T> out(expected.size());
    engine.readTensor("out", out.data(), out.data() + out.size());
    CHECK(out == expected);
  }
}

TEST(HalfHasLimits) {
  Graph graph = NewGraph();
  const Tensor out = graph.addVariable(poplar::HALF, {6}, "out");
  graph.setTileMapping(out, 0);
  const ComputeSet cs = graph.addComputeSet("limits");
  graph.setTileMapping(graph.addVertex(cs, "Limits", {{"out", out}}), 0);
  graph.createHostRead("out", out);
  CheckOut<std::uint16_t>(graph, Sequence({Execute(cs)}), {0xfbff, 0x7bff, 0x7c00, 0x0400, 0x1400, 0x0001});
}

TEST(MathematicsOfVectors) {
  Graph graph = NewGraph();
  const Tensor out = graph.addVariable(poplar::FLOAT, {12}, "out");
  graph.setTileMapping(out, 0);
  const ComputeSet cs = graph.addComputeSet("mathematics");
  graph.setTileMapping(graph.addVertex(cs, "Mathematics", {{"out", out}}), 0);
  graph.createHostRead("out", out);
  CheckOut<float>(graph, Sequence({Execute(cs)}), {2, 6, 3, -4, 9, 2, -1, -1, -1, 3, 3, -0.5f});
}

TEST(AbsOfLongIntegers) {
  Graph graph = NewGraph();
  const std::vector<long long> values = {3499211612ll, -3499211612ll, -1, 1ll << 62};
  const Tensor in = graph.addConstant(poplar::LONGLONG, {4}, values);
  const Tensor out = graph.addVariable(poplar::LONGLONG, {4}, "out");
  for (const Tensor& t : {in, out}) graph.setTileMapping(t, 0);
  const ComputeSet cs = graph.addComputeSet("abs");
  graph.setTileMapping(graph.addVertex(cs, "Absolute", {{"in", in}, {"out", out}}), 0);
  graph.createHostRead("out", out);
  CheckOut<long long>(graph, Sequence({Execute(cs)}), {3499211612ll, 3499211612ll, 1, 1ll << 62});
}

// Each edge has the metadata of its own tensor, which may be on another tile.
TEST(EdgesOfQuarterHaveMetadata) {
  Graph graph = NewGraph();
  const Tensor in = graph.addConstant(poplar::HALF, {3}, std::vector<float>{1.5f, -6, 0.1f});
  const Tensor coarse =
      graph.addVariable(poplar::QUARTER, createConstantMetadataTensor(graph, Format::F152, 1), {3}, "coarse");
  const Tensor fine =
      graph.addVariable(poplar::QUARTER, createVariableMetadataTensor(graph, Format::F143, -2), {3}, "fine");
  const Tensor out = graph.addVariable(poplar::HALF, {7}, "out");
  graph.setTileMapping(in, 1);
  graph.setTileMapping(coarse, 1);
  graph.setTileMapping(fine, 2);
  graph.setTileMapping(out, 3);
  const ComputeSet to = graph.addComputeSet("to"), from = graph.addComputeSet("from");
  graph.setTileMapping(graph.addVertex(to, "ToQuarter", {{"in", in}, {"out", coarse}}), 1);
  graph.setTileMapping(graph.addVertex(to, "ToQuarter", {{"in", in}, {"out", fine}}), 2);
  const VertexRef v = graph.addVertex(from, "FromQuarter", {{"one", fine[1]}, {"out", out}});
  graph.connect(v["rows"], std::vector<Tensor>{coarse, fine});
  graph.setTileMapping(v, 3);
  graph.createHostRead("out", out);
  // Steps are 1/64 around 0.1 in F152, 1/128 in F143.
  CheckOut<std::uint16_t>(graph, Sequence({Execute(to), Execute(from)}),
                          {0x3e00, 0xc600, 0x2e00, 0x3e00, 0xc600, 0x2e80, 0xc600});
}

TEST(EdgesOfQuarterTakeQuarterOnly) {
  Graph graph = NewGraph();
  const Tensor bytes = graph.addVariable(poplar::UNSIGNED_CHAR, {3}, "bytes");
  const Tensor quarters = graph.addVariable(
      poplar::QUARTER, createConstantMetadataTensor(graph, Format::F152, 1), {3}, "quarters");
  const ComputeSet cs = graph.addComputeSet("cs");
  CHECK_THROWS(poplar::graph_connection_error, graph.addVertex(cs, "ToQuarter", {{"out", bytes}}));
  CHECK_THROWS(poplar::graph_connection_error, graph.addVertex(cs, "ToQuarter", {{"in", quarters}}));
}

}  // namespace
}  // namespace ipu_model
