// The text of program::PrintTensor with a format.
#include "engine/run/print_tensor.h"

#include <numeric>
#include <sstream>
#include <vector>

#include "check.h"
#include "poplar/Engine.hpp"
#include "poplar/Executable.hpp"
#include "poplar/Graph.hpp"
#include "poplar/IPUModel.hpp"

namespace {

using namespace ipu_model;
using poplar::PrintTensorFmt;
using FloatFormat = PrintTensorFmt::FloatFormat;

std::string Printed(const std::vector<float>& values, const PrintTensorFmt& format) {
  std::ostringstream text;
  PrintTensor(text, "x", DType::kF32, {static_cast<std::int64_t>(values.size())}, values.data(), format);
  return text.str();
}

std::string Counted(const Shape& shape, const PrintTensorFmt& format) {
  std::vector<int> values(static_cast<std::size_t>(NumElements(shape)));
  std::iota(values.begin(), values.end(), 0);
  std::ostringstream text;
  PrintTensor(text, "n", DType::kS32, shape, values.data(), format);
  return text.str();
}

}  // namespace

TEST(NumbersHaveOneWidth) {
  CHECK_EQ(Printed({1, -20.5f}, {1000, 3, 75, 4}), std::string("x: [  1.00 -20.50]\n"));
  CHECK_EQ(Printed({1, 1e-6f}, {1000, 3, 75, 3}), std::string("x: [1.00e+00 1.00e-06]\n"));
  CHECK_EQ(Printed({1, 2}, {1000, 3, 75, 3, FloatFormat::Scientific}),
           std::string("x: [1.00e+00 2.00e+00]\n"));
  CHECK_EQ(Printed({1, 1e-6f}, {1000, 3, 75, 3, FloatFormat::Fixed}), std::string("x: [1.00 0.00]\n"));
  CHECK_EQ(Printed({1, 0.5f}, {1000, 3, 75, 3, FloatFormat::None}), std::string("x: [  1 0.5]\n"));
  CHECK_EQ(Printed({1, 2}, PrintTensorFmt::disableFormatting()), std::string("x: [1.0000000 2.0000000]\n"));
  CHECK_EQ(Printed({}, {}), std::string("x: []\n"));
}

TEST(LargeTensorsAreSummarised) {
  CHECK_EQ(Counted({12}, {10, 2}), std::string("n: [ 0  1 ... 10 11]\n"));
  CHECK_EQ(Counted({10}, {10, 2}), std::string("n: [0 1 2 3 4 5 6 7 8 9]\n"));
  CHECK_EQ(Counted({5, 2}, {4, 1}), std::string("n: [\n  [0 1]\n  ...\n  [8 9]\n]\n"));
  CHECK_EQ(Counted({4}, {0, 1, 0, 8, FloatFormat::Auto, ',', '{', '}'}), std::string("n: {0,1,2,3}\n"));
}

TEST(LongLinesAreSplit) { CHECK_EQ(Counted({6}, {0, 3, 6}), std::string("n: [0 1 2\n  3 4\n  5]\n")); }

TEST(ExecutablesKeepTheFormat) {
  using namespace poplar;
  const Device device = IPUModel("ipu2").createDevice();
  Graph graph(device);
  const Tensor x = graph.addConstant<float>(FLOAT, {3}, {1, 2, 3}, "x");
  graph.setTileMapping(x, 0);
  std::stringstream stored;
  compileGraph(graph, {program::PrintTensor("x", x, {2, 1, 75, 2, FloatFormat::Auto, ';'})})
      .serialize(stored);
  Engine engine(Executable::deserialize(stored));
  std::ostringstream text;
  engine.setPrintTensorStream(text);
  engine.loadAndRun(device);
  CHECK_EQ(text.str(), std::string("x: [1.0;...;3.0]\n"));
}
