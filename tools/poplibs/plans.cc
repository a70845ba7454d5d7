// What PopLibs' planner expects of convolutions: reads lines "TYPE BATCH HEIGHT WIDTH IN KERNEL_H KERNEL_W
// OUT STRIDE PROPORTION PASS", of which the last two are availableMemoryProportion and the pass (NONE_MATMUL
// is that of products), and prints each with the cycles and the temporary bytes of its plan, or why there are
// none.
#include <algorithm>
#include <cstddef>
#include <exception>
#include <iostream>
#include <poplar/Graph.hpp>
#include <poplar/IPUModel.hpp>
#include <poplin/Convolution.hpp>
#include <sstream>
#include <string>

namespace {

// Of "SAME", as XLA has it: both sides together, and the smaller one below.
struct Padding {
  Padding(std::size_t size, std::size_t kernel, std::size_t stride) {
    const std::size_t reach = ((size + stride - 1) / stride - 1) * stride + kernel;
    const std::size_t all = std::max(reach, size) - size;
    lower = static_cast<unsigned>(all / 2);
    upper = static_cast<unsigned>(all) - lower;
  }
  unsigned lower, upper;
};

poplin::PlanCosts CostsOf(const std::string& line) {
  std::istringstream in(line);
  std::string name;
  std::size_t batch, height, width, channels, kernel_height, kernel_width, out, stride;
  std::string proportion, pass;
  in >> name >> batch >> height >> width >> channels >> kernel_height >> kernel_width >> out >> stride >>
      proportion >> pass;
  poplar::IPUModel model("ipu2");
  model.numIPUs = 1;
  const poplar::Device device = model.createDevice();
  const poplar::Graph graph(device.getTarget());
  const poplar::Type type = name == "f32" ? poplar::FLOAT : poplar::HALF;
  poplin::ConvParams params(type, type, batch, {height, width}, {kernel_height, kernel_width}, channels, out,
                            1);
  const Padding rows(height, kernel_height, stride), columns(width, kernel_width, stride);
  params.inputTransform.paddingLower = {rows.lower, columns.lower};
  params.inputTransform.paddingUpper = {rows.upper, columns.upper};
  const auto step = static_cast<unsigned>(stride);
  params.outputTransform.stride = {step, step};
  return poplin::reportPlanEstimatedCosts(
      graph, params, {{"partialsType", "float"}, {"availableMemoryProportion", proportion}, {"pass", pass}});
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    try {
      const poplin::PlanCosts costs = CostsOf(line);
      std::cout << line << '\t' << costs.cycles << '\t' << costs.memory << std::endl;
    } catch (const std::exception& error) {
      std::cout << line << "\t-\t" << error.what() << std::endl;
    }
  }
}
