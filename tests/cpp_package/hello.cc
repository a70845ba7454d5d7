// Hello Poplar, against an installed ipu_model: a codelet from a file, one vertex for each pair of numbers.
#include <cstdio>
#include <exception>
#include <poplar/Engine.hpp>
#include <poplar/Graph.hpp>
#include <poplar/IPUModel.hpp>
#include <vector>

int main(int argc, char** argv) {
  constexpr std::size_t kPairs = 8;
  if (argc != 2) return 2;
  try {
    const poplar::Device device = poplar::IPUModel("ipu2").createDevice();
    poplar::Graph graph(device);
    graph.addCodelets(argv[1]);
    const poplar::Tensor x = graph.addVariable(poplar::FLOAT, {kPairs}, "x");
    const poplar::Tensor y = graph.addVariable(poplar::FLOAT, {kPairs}, "y");
    const poplar::Tensor sum = graph.addVariable(poplar::FLOAT, {kPairs}, "sum");
    const poplar::ComputeSet add = graph.addComputeSet("add");
    for (unsigned i = 0; i < kPairs; ++i) {
      const poplar::VertexRef vertex =
          graph.addVertex(add, "AdderVertex", {{"x", x[i]}, {"y", y[i]}, {"sum", sum[i]}});
      for (const poplar::Tensor& t : {x[i], y[i], sum[i]}) graph.setTileMapping(t, i);
      graph.setTileMapping(vertex, i);
      graph.setPerfEstimate(vertex, 20);
    }
    graph.createHostWrite("x", x);
    graph.createHostWrite("y", y);
    graph.createHostRead("sum", sum);
    poplar::Engine engine(graph, poplar::program::Execute(add));
    engine.load(device);
    std::vector<float> first(kPairs), second(kPairs), result(kPairs);
    for (std::size_t i = 0; i < kPairs; ++i) {
      first[i] = static_cast<float>(i);
      second[i] = 0.5f;
    }
    engine.writeTensor("x", first.data(), first.data() + kPairs);
    engine.writeTensor("y", second.data(), second.data() + kPairs);
    engine.run();
    engine.readTensor("sum", result.data(), result.data() + kPairs);
    for (const float value : result) std::printf("%g ", static_cast<double>(value));
    std::printf("\n");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
