// A program in the names of Graphcore's SDK, against an installed ipu_model: y = a b on one IPU, with its
// cycles.
#include <cstdint>
#include <cstdio>
#include <ipu_model/Model.hpp>
#include <poplar/Engine.hpp>
#include <poplar/Graph.hpp>
#include <poplar/IPUModel.hpp>
#include <poplin/MatMul.hpp>
#include <vector>

int main() {
  constexpr std::size_t kRows = 16, kInner = 8, kColumns = 4;
  const poplar::Device device = poplar::IPUModel("ipu2").createDevice();
  poplar::Graph graph(device.getTarget());
  poplar::program::Sequence main;

  const poplar::Tensor a = poplin::createMatMulInputLHS(graph, poplar::FLOAT, poplar::FLOAT, {kRows, kInner},
                                                        {kInner, kColumns}, "a");
  const poplar::Tensor b = poplin::createMatMulInputRHS(graph, poplar::FLOAT, poplar::FLOAT, {kRows, kInner},
                                                        {kInner, kColumns}, "b");
  main.add(poplar::program::Copy(graph.addHostToDeviceFIFO("a", poplar::FLOAT, kRows * kInner), a));
  main.add(poplar::program::Copy(graph.addHostToDeviceFIFO("b", poplar::FLOAT, kInner * kColumns), b));
  const poplar::Tensor y = poplin::matMul(graph, a, b, main, "y");
  main.add(poplar::program::Copy(y, graph.addDeviceToHostFIFO("y", poplar::FLOAT, kRows * kColumns)));

  std::vector<float> left(kRows * kInner), right(kInner * kColumns), product(kRows * kColumns);
  for (std::size_t i = 0; i < left.size(); ++i) left[i] = static_cast<float>(i % 7);
  for (std::size_t i = 0; i < right.size(); ++i) right[i] = static_cast<float>(i % 5);
  const poplar::Executable executable = poplar::compileGraph(graph, {main});
  poplar::Engine engine(executable);
  engine.connectStream("a", left.data());
  engine.connectStream("b", right.data());
  engine.connectStream("y", product.data());
  engine.loadAndRun(device);

  for (std::size_t i = 0; i < kRows; ++i) {
    for (std::size_t j = 0; j < kColumns; ++j) {
      float expected = 0;
      for (std::size_t k = 0; k < kInner; ++k) expected += left[i * kInner + k] * right[k * kColumns + j];
      if (product[i * kColumns + j] == expected) continue;
      std::printf("y[%zu, %zu] is %g, not %g\n", i, j, product[i * kColumns + j], expected);
      return 1;
    }
  }
  const std::uint64_t cycles = ipu_model::LastRunCycles(engine);
  if (cycles == 0 || cycles != ipu_model::ReportOf(executable).cycles.total()) return 2;
  std::printf("%llu cycles\n", static_cast<unsigned long long>(cycles));
  return 0;
}
