// Wrong calls of the Poplar API, which throw its exceptions: of codelets, compute sets, vertices and fields.
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "check.h"
#include "poplar/Engine.hpp"
#include "poplar/IPUModel.hpp"
#include "poplar/exceptions.hpp"
#include "testing/codelet_cache.h"
#include "testing/compute_sets.h"
#include "testing/small_device.h"
#include "testing/throwing_calls.h"

namespace {

using namespace poplar;
using namespace poplar::program;
using ipu_model::toy::CheckWrong;
using ipu_model::toy::OnTile;
using ipu_model::toy::SmallDevice;

const ipu_model::toy::SharedCodeletCache cache;

Graph GraphWithCodelets(const Device& device) {
  Graph graph(device);
  std::istringstream text(ipu_model::toy::kCodelets);
  graph.addCodelets(text);
  return graph;
}

TEST(Vertices) {
  const Device device = SmallDevice();
  Graph graph = GraphWithCodelets(device), other = GraphWithCodelets(device);
  const ComputeSet cs = graph.addComputeSet("cs"), theirs = other.addComputeSet("theirs");
  const Tensor x = OnTile(graph, FLOAT, {4}, 0, "x"), rows = OnTile(graph, INT, {2, 3}, 0, "rows");
  const Tensor foreign = OnTile(other, FLOAT, {4}, 0, "foreign");
  const VertexRef scale = graph.addVertex(cs, "Scale"), adder = graph.addVertex(cs, "Adder");
  const VertexRef weighted = graph.addVertex(cs, "Weighted<int>"),
                  stranger = other.addVertex(theirs, "Scale");
  const VertexRef none, forged(cs.data(), 1000);
  graph.connect(scale["in"], x);
  std::istringstream broken("class Broken : public poplar::Vertex {");
  std::istringstream object;
  CheckWrong(
      __FILE__,
      {
          WRONG(poplar_error, graph.addVertex(ComputeSet(), "Scale")),
          WRONG(poplar_error, graph.addVertex(theirs, "Scale")),
          WRONG(unknown_vertex_type, graph.addVertex(cs, "Scales")),
          WRONG(unknown_vertex_type, graph.addVertex(cs, "Weighted<float>")),
          WRONG(unknown_field, graph.addVertex(cs, "Scale", {{"inn", x}})),
          WRONG(graph_connection_error, graph.addVertex(cs, "Scale", {{"in", Tensor()}})),
          WRONG(unknown_field, graph.connect(scale["inn"], x)),
          WRONG(graph_connection_error, graph.connect(scale["in"], x)),
          WRONG(graph_connection_error, graph.connect(scale["factor"], x)),
          WRONG(graph_connection_error, graph.connect(scale["out"], rows)),
          WRONG(graph_connection_error, graph.connect(scale["out"], Tensor())),
          WRONG(graph_connection_error, graph.connect(scale["out"], foreign)),
          WRONG(graph_connection_error, graph.connect(scale["out"][0], x)),
          WRONG(graph_connection_error, graph.connect(scale["out"], std::vector<Tensor>{})),
          WRONG(graph_connection_error, graph.connect(scale["out"], std::vector<Tensor>{x, Tensor()})),
          WRONG(graph_connection_error, graph.connect(scale["out"], std::vector<Tensor>{x, foreign})),
          WRONG(graph_connection_error, graph.connect(scale["out"], std::vector<Tensor>{x, rows})),
          WRONG(graph_connection_error, graph.connect(adder["x"], x)),
          WRONG(graph_connection_error, graph.connect(adder["x"], x.slice(0, 0))),
          WRONG(graph_connection_error, graph.connect(adder["x"], std::vector<float>{1, 2})),
          WRONG(graph_connection_error, graph.connect(weighted["rows"], rows[0])),
          WRONG(graph_connection_error, graph.connect(weighted["rows"], Tensor())),
          WRONG(graph_connection_error, graph.connect(weighted["sums"], Tensor())),
          WRONG(graph_connection_error, graph.connect(weighted["sums"], x)),
          WRONG(graph_connection_error, graph.connect(weighted["rows"][1u << 30], rows[0])),
          WRONG(graph_connection_error, graph.connect(weighted["rows"], std::vector<Tensor>{Tensor()})),
          WRONG(poplar_error, graph.connect(none["in"], x)),
          WRONG(poplar_error, graph.connect(stranger["in"], x)),
          WRONG(poplar_error, graph.connect(forged["in"], x)),
          WRONG(unknown_field, graph.setInitialValue(scale["factors"], 1.0f)),
          WRONG(graph_connection_error, graph.setInitialValue(scale["in"], 1.0f)),
          WRONG(graph_connection_error, graph.setInitialValue(scale["factor"], std::vector<float>{1})),
          WRONG(graph_connection_error, graph.setInitialValue(weighted["weights"], 1)),
          WRONG(graph_connection_error, graph.setInitialValue(weighted["weights"], std::vector<double>{0.5})),
          WRONG(poplar_error, graph.setInitialValue(none["factor"], 1.0f)),
          WRONG(poplar_error, graph.setInitialValue(stranger["factor"], 1.0f)),
          WRONG(unknown_field, graph.setFieldSize(scale["inn"], 1)),
          WRONG(graph_connection_error, graph.setFieldSize(scale["in"], 1)),
          WRONG(graph_connection_error, graph.setFieldSize(scale["factor"], 1)),
          WRONG(graph_connection_error, graph.setFieldSize(weighted["weights"], std::size_t{1} << 40)),
          WRONG(poplar_error, graph.setFieldSize(none["in"], 1)),
          WRONG(invalid_tile_mapping, graph.setTileMapping(scale, 4)),
          WRONG(poplar_error, graph.setTileMapping(none, 0)),
          WRONG(poplar_error, graph.setTileMapping(stranger, 0)),
          WRONG(poplar_error, graph.setPerfEstimate(none, 1)),
          WRONG(poplar_error, graph.setPerfEstimate(stranger, 1)),
          WRONG(unknown_vertex_type, graph.registerPerfEstimator("Scales", nullptr)),
          WRONG(poplar_error, graph.registerPerfEstimator("Scale", nullptr)),
          WRONG(unknown_vertex_type, graph.getMaxVertexFieldValue("Scales", "factor")),
          WRONG(unknown_field, graph.getMaxVertexFieldValue("Scale", "factors")),
          WRONG(type_error, graph.getMaxVertexFieldValue("Scale", "factor")),
          WRONG(unknown_vertex_type, graph.getMaxFieldDim("Scales", "in", 0)),
          WRONG(unknown_field, graph.getMaxFieldDim("Scale", "inn", 0)),
          WRONG(type_error, graph.getMaxFieldDim("Scale", "in", 1)),
          WRONG(poplar_error, graph.addCodelets("no such file.cpp")),
          WRONG(poplar_error, graph.addCodelets("codelet.S")),
          WRONG(poplar_error, graph.addCodelets(object, "", CodeletFileType::Object)),
          WRONG(graph_program_compilation_error, graph.addCodelets(broken)),
          WRONG(invalid_tile_mapping, Engine(graph, Execute(cs))),
      });
}

// Each wrong graph is only found when it is compiled.
TEST(ComputeSetsThatDoNotFit) {
  const Device device = SmallDevice();
  const auto compiled = [&](const std::function<void(Graph&, const ComputeSet&)>& build) {
    Graph graph = GraphWithCodelets(device);
    const ComputeSet cs = graph.addComputeSet("cs");
    build(graph, cs);
    return Engine(graph, Execute(cs));
  };
  const auto scale = [](Graph& graph, const ComputeSet& cs, const Tensor& in, const Tensor& out) {
    const VertexRef v = graph.addVertex(cs, "Scale", {{"in", in}, {"out", out}});
    graph.setTileMapping(v, 0);
  };
  CheckWrong(__FILE__,
             {
                 WRONG(graph_connection_error, compiled([&](Graph& g, const ComputeSet& cs) {
                         g.setTileMapping(g.addVertex(cs, "Scale"), 0);
                       })),
                 WRONG(graph_connection_error, compiled([&](Graph& g, const ComputeSet& cs) {
                         const VertexRef v = g.addVertex(cs, "Weighted<int>");
                         g.setTileMapping(v, 0);
                         g.setFieldSize(v["rows"], 2);
                       })),
                 WRONG(graph_connection_error, compiled([&](Graph& g, const ComputeSet& cs) {
                         const Tensor x = OnTile(g, FLOAT, {4}, 0, "x");
                         scale(g, cs, x, g.addConstant(FLOAT, {4}, 1.0f));
                       })),
                 WRONG(graph_connection_error, compiled([&](Graph& g, const ComputeSet& cs) {
                         const Tensor x = OnTile(g, FLOAT, {4}, 0, "x"), y = OnTile(g, FLOAT, {4}, 0, "y");
                         scale(g, cs, x, y);
                         scale(g, cs, x, y);
                       })),
                 WRONG(graph_connection_error, compiled([&](Graph& g, const ComputeSet& cs) {
                         const Tensor x = OnTile(g, FLOAT, {4}, 0, "x"), y = OnTile(g, FLOAT, {4}, 0, "y");
                         scale(g, cs, x, y);
                         scale(g, cs, y, OnTile(g, FLOAT, {4}, 0, "z"));
                       })),
                 WRONG(invalid_tile_mapping, compiled([&](Graph& g, const ComputeSet& cs) {
                         scale(g, cs, g.addVariable(FLOAT, {4}), OnTile(g, FLOAT, {4}, 0, "y"));
                       })),
             });
}

}  // namespace
