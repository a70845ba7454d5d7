// Tests matrix products on the device: every plan gives exact results vertex by vertex.
#include "operations/product/matmul.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "check.h"
#include "core/graph/graph_impl.h"
#include "core/operation/serialise.h"
#include "core/program/program_node.h"
#include "core/vertices/limits_buffers.h"
#include "ipu_model/Model.hpp"
#include "operations/product/matmul_plan.h"
#include "operations/product/matmul_steps.h"
#include "poplar/Engine.hpp"
#include "poplar/Graph.hpp"
#include "poplar/exceptions.hpp"
#include "poplin/MatMul.hpp"
#include "poputil/TileMapping.hpp"

using namespace ipu_model;
using poplar::Graph;
using poplar::OptionFlags;
using poplar::Target;
using poplar::Tensor;
using poplar::Type;
using poplar::program::Copy;
using poplar::program::Sequence;

namespace {

using Dims = std::vector<std::size_t>;

std::mt19937& Random() {
  static std::mt19937 random(11);
  return random;
}

std::vector<float> Whole(std::size_t n) {
  std::uniform_int_distribution<int> pick(-4, 4);
  std::vector<float> values(n);
  for (float& v : values) v = static_cast<float>(pick(Random()));
  return values;
}

struct Shapes {
  std::size_t g, m, k, n;
};

std::vector<float> Naive(const Shapes& s, const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<float> c(s.g * s.m * s.n, 0);
  for (std::size_t g = 0; g < s.g; ++g) {
    for (std::size_t m = 0; m < s.m; ++m) {
      for (std::size_t k = 0; k < s.k; ++k) {
        for (std::size_t n = 0; n < s.n; ++n)
          c[(g * s.m + m) * s.n + n] += a[(g * s.m + m) * s.k + k] * b[(g * s.k + k) * s.n + n];
      }
    }
  }
  return c;
}

// A graph under construction, with a program whose operands and results are on the host.
struct Program {
  explicit Program(unsigned tiles) : graph(Target::createIPUTarget(1, tiles, "ipu2")) {}

  void In(const Tensor& tensor, std::vector<float> values) {
    const std::string name = "in" + std::to_string(inputs.size());
    const auto fifo = graph.addHostToDeviceFIFO(name, tensor.elementType(), tensor.numElements());
    sequence.add(Copy(fifo, tensor));
    inputs.push_back(std::move(values));
  }
  void Out(const Tensor& tensor) {
    const std::string name = "out" + std::to_string(outputs.size());
    const auto fifo = graph.addDeviceToHostFIFO(name, tensor.elementType(), tensor.numElements());
    sequence.add(Copy(tensor, fifo));
    outputs.emplace_back(tensor.numElements());
  }
  // Returns the values of the outputs.
  std::vector<std::vector<float>> Run(const char* execution) {
    poplar::Engine engine(graph, sequence, {{"execution", execution}});
    for (std::size_t i = 0; i < inputs.size(); ++i)
      engine.connectStream("in" + std::to_string(i), inputs[i].data());
    std::vector<std::vector<float>> results = outputs;
    for (std::size_t i = 0; i < outputs.size(); ++i)
      engine.connectStream("out" + std::to_string(i), results[i].data());
    engine.load();
    engine.run(0);
    return results;
  }
  void CheckBoth(const std::vector<float>& expected) {
    CHECK(Run("fast")[0] == expected);
    CHECK(Run("tile")[0] == expected);
  }

  Graph graph;
  Sequence sequence;
  std::vector<std::vector<float>> inputs, outputs;
};

std::size_t VariablesOf(const Graph& graph) { return graph.impl().variables.size(); }

// Enough tiles to cut small shapes in every dimension.
constexpr unsigned kTiles = 48;

TEST(ExactOnBothEngines) {
  for (const Shapes& s : std::vector<Shapes>{{1, 16, 16, 16},
                                             {1, 1, 1, 1},
                                             {1, 1, 300, 5},
                                             {1, 5, 300, 1},
                                             {1, 37, 29, 41},
                                             {3, 10, 20, 30},
                                             {50, 2, 3, 4},
                                             {1, 100, 7, 3},
                                             {1, 3, 7, 100},
                                             {1, 2, 500, 2},
                                             {2, 64, 64, 64}}) {
    for (const bool created : {false, true}) {
      Program p(kTiles);
      const Dims a_shape = {s.g, s.m, s.k}, b_shape = {s.g, s.k, s.n};
      Tensor a, b;
      if (created) {
        a = poplin::createMatMulGroupedInputLHS(p.graph, poplar::FLOAT, poplar::FLOAT, a_shape, b_shape, "a");
        b = poplin::createMatMulGroupedInputRHS(p.graph, poplar::FLOAT, poplar::FLOAT, a_shape, b_shape, "b");
      } else {
        a = p.graph.addVariable(poplar::FLOAT, a_shape, "a");
        b = p.graph.addVariable(poplar::FLOAT, b_shape, "b");
        poputil::mapTensorLinearly(p.graph, a);
        poputil::mapTensorLinearly(p.graph, b);
      }
      const std::vector<float> av = Whole(a.numElements()), bv = Whole(b.numElements());
      p.In(a, av);
      p.In(b, bv);
      p.Out(poplin::matMulGrouped(p.graph, a, b, p.sequence, poplar::FLOAT, "product"));
      p.CheckBoth(Naive(s, av, bv));
    }
  }
}

TEST(TransposedOperandsAreReadInPlace) {
  Program p(kTiles);
  Tensor a = p.graph.addVariable(poplar::FLOAT, {20, 30}, "a"),
         b = p.graph.addVariable(poplar::FLOAT, {25, 20}, "b");
  poputil::mapTensorLinearly(p.graph, a);
  poputil::mapTensorLinearly(p.graph, b);
  const std::vector<float> av = Whole(600), bv = Whole(500);
  p.In(a, av);
  p.In(b, bv);
  const std::size_t before = VariablesOf(p.graph);
  p.Out(poplin::matMul(p.graph, a.transpose(), b.transpose(), p.sequence, poplar::FLOAT, "product"));
  CHECK_EQ(VariablesOf(p.graph), before + 1);  // the result only
  std::vector<float> at(600), bt(500);
  for (std::size_t i = 0; i < 20; ++i) {
    for (std::size_t j = 0; j < 30; ++j) at[j * 20 + i] = av[i * 30 + j];
    for (std::size_t j = 0; j < 25; ++j) bt[i * 25 + j] = bv[j * 20 + i];
  }
  p.CheckBoth(Naive({1, 30, 20, 25}, at, bt));
}

// Runs a product of random halves in both modes, which must give the same bits.
void CheckHalves(Program& p, const Tensor& a, const Tensor& b, const Tensor& c) {
  const auto values = [](std::size_t n) {
    std::vector<_Float16> v(n);
    for (_Float16& x : v) x = static_cast<_Float16>(static_cast<float>(Random()() % 2000) / 1000.0f - 1.0f);
    return v;
  };
  std::vector<_Float16> av = values(a.numElements()), bv = values(b.numElements()), results[2];
  for (int tile = 0; tile < 2; ++tile) {
    poplar::Engine engine(p.graph, p.sequence, {{"execution", tile == 0 ? "fast" : "tile"}});
    results[tile].assign(c.numElements(), _Float16(-7));
    engine.connectStream("in0", av.data());
    engine.connectStream("in1", bv.data());
    engine.connectStream("out0", results[tile].data());
    engine.load();
    engine.run(0);
  }
  CHECK(std::memcmp(results[0].data(), results[1].data(), 2 * results[0].size()) == 0);
}

// Half results of one group of channels are rounded once, also where they move to other tiles.
TEST(HalfResultsAreRoundedSums) {
  for (const std::size_t depth : {3, 16}) {
    for (const unsigned first : {0u, 5u}) {
      Program p(kTiles);
      const Tensor a = p.graph.addVariable(poplar::HALF, {1, 100, depth}, "a"),
                   b = p.graph.addVariable(poplar::HALF, {1, depth, 70}, "b");
      Tensor c = p.graph.addVariable(poplar::HALF, {1, 100, 70}, "c");
      poputil::mapTensorLinearly(p.graph, a);
      poputil::mapTensorLinearly(p.graph, b);
      poputil::mapTensorLinearly(p.graph, c, 1 + first, 1 + first);
      const std::vector<float> av = Whole(a.numElements()), bv = Whole(b.numElements());
      p.In(a, av);
      p.In(b, bv);
      poplin::matMulGroupedWithOutput(p.graph, a, b, c, p.sequence, "product");
      p.Out(c);
      CheckHalves(p, a, b, c);
    }
  }
}

TEST(TwoStageSumsAndSerialSteps) {
  // Uses given plans, independent of the planner.
  struct Steps {
    bool whole_depth;
    std::int64_t stage_sums;
    MatMulDim output_dim;
    std::int64_t output_steps, depth_steps;
    bool keeps = false;
  };
  for (const Steps& steps : std::vector<Steps>{{false, 5, kColumnDim, 1, 1},
                                               {true, 1, kRowDim, 3, 1},
                                               {true, 1, kColumnDim, 2, 1},
                                               {true, 1, kRowDim, 3, 1, true},
                                               {true, 1, kColumnDim, 2, 1, true},
                                               {false, 1, kRowDim, 5, 1, true},
                                               {false, 1, kColumnDim, 2, 1, true},
                                               {false, 1, kColumnDim, 1, 3},
                                               {true, 1, kColumnDim, 1, 3},
                                               {true, 1, kRowDim, 3, 4},
                                               {true, 1, kColumnDim, 2, 50},
                                               {false, 1, kRowDim, 5, 2},
                                               {false, 1, kColumnDim, 2, 3}}) {
    Program p(kTiles);
    MatMulPlan plan;
    plan.grid.shape = {1, 11, 6, 50};
    plan.grid.parts = steps.whole_depth ? Shape{1, 3, 2, 1} : Shape{1, 1, 2, 12};
    plan.grid.grain = {1, 1, 1, 1};
    plan.grid.tile_stride = steps.whole_depth ? Shape{0, 2, 1, 0} : Shape{0, 0, 1, 2};
    plan.grid.num_tiles = kTiles;
    plan.stage_sums = steps.stage_sums;
    plan.output_dim = steps.output_dim;
    plan.output_steps = steps.output_steps;
    plan.depth_steps = steps.depth_steps;
    plan.keeps_operand = steps.keeps;
    Tensor a = p.graph.addVariable(poplar::FLOAT, {1, 11, 50}, "a"),
           b = p.graph.addVariable(poplar::FLOAT, {1, 50, 6}, "b");
    poputil::mapTensorLinearly(p.graph, a);
    poputil::mapTensorLinearly(p.graph, b);
    const std::vector<float> av = Whole(550), bv = Whole(300);
    p.In(a, av);
    p.In(b, bv);
    Tensor c = NewTensor(p.graph, DType::kF32, {1, 11, 6}, Mapping(OutputGrid(plan)), "c");
    // Also test serialisation.
    Writer writer;
    MakeMatMul(plan)->Write(writer);
    Reader reader(writer.data());
    auto operation = OperationRegistry().at("poplin::matMulGrouped")(reader);
    operation->inputs.resize(2);
    operation->outputs.resize(1);
    CHECK(a.asView(&operation->inputs[0]) && b.asView(&operation->inputs[1]) &&
          c.asView(&operation->outputs[0]));
    AddOperation(p.sequence, std::move(operation));
    p.Out(c);
    p.CheckBoth(Naive({1, 11, 50, 6}, av, bv));
  }
}

// Operations whose buffers do not fit are given a limit. Their steps then keep to it, with the same values.
TEST(LimitedBuffers) {
  struct Case {
    Shape parts, stride;
    std::int64_t limit;
  };
  for (const Case& limited : std::vector<Case>{{{1, 3, 2, 1}, {0, 2, 1, 0}, 12000},
                                               {{1, 3, 2, 1}, {0, 2, 1, 0}, 4000},
                                               {{1, 3, 2, 1}, {0, 2, 1, 0}, 1600},
                                               {{1, 1, 2, 12}, {0, 0, 1, 2}, 9000},
                                               {{1, 1, 2, 12}, {0, 0, 1, 2}, 4000},
                                               {{1, 1, 2, 12}, {0, 0, 1, 2}, 1600},
                                               {{1, 2, 1, 12}, {0, 1, 0, 2}, 4500},
                                               {{1, 3, 1, 5}, {0, 1, 0, 3}, 6000}}) {
    for (const bool half : {false, true}) {
      Program p(kTiles);
      MatMulPlan plan;
      plan.grid.shape = {1, 47, 34, 300};
      plan.grid.parts = limited.parts;
      plan.grid.tile_stride = limited.stride;
      plan.grid.grain = {1, 1, 1, 1};
      plan.grid.num_tiles = kTiles;
      plan.partial_type = half ? DType::kF16 : DType::kF32;
      plan.half_step = half ? 16 : 0;
      const DType type = plan.partial_type;
      const double limit = static_cast<double>(half ? limited.limit / 2 : limited.limit);
      const MatMulPlan stepped = StepsWithin(plan, type, type, limit);
      CHECK(HasStepsWithin(plan, type, type, limit));
      CHECK(stepped.output_steps * stepped.depth_steps > 1);
      Tensor a = p.graph.addVariable(Type(type), {1, 47, 300}, "a"),
             b = p.graph.addVariable(Type(type), {1, 300, 34}, "b");
      poputil::mapTensorLinearly(p.graph, a);
      poputil::mapTensorLinearly(p.graph, b);
      Tensor c = NewTensor(p.graph, type, {1, 47, 34}, Mapping(OutputGrid(plan)), "c");
      auto operation = MakeMatMul(plan);
      operation->inputs.resize(2);
      operation->outputs.resize(1);
      CHECK(a.asView(&operation->inputs[0]) && b.asView(&operation->inputs[1]) &&
            c.asView(&operation->outputs[0]));
      CHECK(dynamic_cast<LimitsBuffers&>(*operation).LimitBuffers(static_cast<std::int64_t>(limit)));
      const std::vector<float> av = Whole(half ? 0 : 47 * 300), bv = Whole(half ? 0 : 300 * 34);
      p.In(a, av);
      p.In(b, bv);
      AddOperation(p.sequence, std::move(operation));
      p.Out(c);
      if (half) {
        CheckHalves(p, a, b, c);
      } else {
        p.CheckBoth(Naive({1, 47, 300, 34}, av, bv));
      }
    }
  }
}

TEST(OutputIntoAnyMapping) {
  Program p(kTiles);
  Tensor a = p.graph.addVariable(poplar::FLOAT, {1, 13, 40}, "a"),
         b = p.graph.addVariable(poplar::FLOAT, {1, 40, 9}, "b");
  Tensor c = p.graph.addVariable(poplar::FLOAT, {1, 9, 13}, "c").dimShuffle({0, 2, 1});
  for (const Tensor& t : {a, b, c}) poputil::mapTensorLinearly(p.graph, t);
  const std::vector<float> av = Whole(520), bv = Whole(360);
  p.In(a, av);
  p.In(b, bv);
  poplin::matMulGroupedWithOutput(p.graph, a, b, c, p.sequence, "product");
  p.Out(c);
  p.CheckBoth(Naive({1, 13, 40, 9}, av, bv));
}

// Types other than f32. gemm_test checks the kernel; here, the vertices must give the results of the whole
// kernel. The values are small whole numbers, so that the order of the sums does not matter.
TEST(TypesAgreeBetweenEngines) {
  struct Types {
    DType a, b, out;
  };
  for (const Types& t : std::vector<Types>{{DType::kF16, DType::kF16, DType::kF16},
                                           {DType::kBF16, DType::kBF16, DType::kF32},
                                           {DType::kS8, DType::kS8, DType::kS32},
                                           {DType::kU64, DType::kU64, DType::kU64},
                                           {DType::kPred, DType::kPred, DType::kPred},
                                           {DType::kF64, DType::kF32, DType::kF64},
                                           {DType::kC64, DType::kC64, DType::kC64}}) {
    Program p(kTiles);
    Tensor a = p.graph.addVariable(Type(t.a), {1, 9, 200}, "a"),
           b = p.graph.addVariable(Type(t.b), {1, 200, 7}, "b");
    poputil::mapTensorLinearly(p.graph, a);
    poputil::mapTensorLinearly(p.graph, b);
    // Bytes that are 0 or 1 in a pattern: whole numbers in integer types. Floats get the bits of 0 or 1.
    const auto fill = [](DType type, std::size_t n) {
      std::vector<unsigned char> bytes(n * SizeOf(type), 0);
      const std::size_t width = IsComplex(type) ? SizeOf(type) / 2 : SizeOf(type);
      const std::uint64_t one = type == DType::kF16                          ? 0x3c00u
                                : type == DType::kBF16                       ? 0x3f80u
                                : type == DType::kF64                        ? 0x3ff0000000000000u
                                : type == DType::kF32 || type == DType::kC64 ? 0x3f800000u
                                                                             : 1u;
      for (std::size_t i = 0; i < bytes.size() / width; ++i) {
        const std::uint64_t value = Random()() % 3 == 0 ? one : 0;
        std::memcpy(bytes.data() + i * width, &value, width);
      }
      return bytes;
    };
    std::vector<unsigned char> av = fill(t.a, 1800), bv = fill(t.b, 1400);
    p.In(a, {});
    p.In(b, {});
    p.Out(poplin::matMulGrouped(p.graph, a, b, p.sequence, Type(t.out), "product"));
    std::vector<unsigned char> results[2];
    for (int tile = 0; tile < 2; ++tile) {
      poplar::Engine engine(p.graph, p.sequence, {{"execution", tile == 0 ? "fast" : "tile"}});
      results[tile].assign(63 * SizeOf(t.out), 0xee);
      engine.connectStream("in0", av.data());
      engine.connectStream("in1", bv.data());
      engine.connectStream("out0", results[tile].data());
      engine.load();
      engine.run(0);
    }
    CHECK(results[0] == results[1]);
    CHECK(results[0] != std::vector<unsigned char>(results[0].size(), 0));
  }
}

TEST(EmptyOperands) {
  Program p(kTiles);
  Tensor a = p.graph.addVariable(poplar::FLOAT, {2, 3, 0}, "a"),
         b = p.graph.addVariable(poplar::FLOAT, {2, 0, 4}, "b");
  p.Out(poplin::matMulGrouped(p.graph, a, b, p.sequence, poplar::FLOAT, "empty sum"));
  p.CheckBoth(std::vector<float>(24, 0.0f));
  const Tensor none = poplin::matMulGrouped(p.graph, b.dimShuffle({0, 2, 1}), b.slice(0, 0, 2), p.sequence,
                                            poplar::FLOAT, "nothing");
  CHECK_EQ(none.numElements(), 0u);
}

TEST(OptionsAndErrors) {
  Graph graph(Target::createIPUTarget(1, kTiles, "ipu2"));
  Sequence sequence;
  Tensor a = graph.addVariable(poplar::FLOAT, {1, 4, 5}, "a"),
         b = graph.addVariable(poplar::FLOAT, {1, 6, 7}, "b");
  Tensor c = graph.addVariable(poplar::FLOAT, {1, 5, 7}, "c");
  const auto multiply = [&](const Tensor& rhs, const OptionFlags& options, Type type = poplar::FLOAT) {
    return poplin::matMulGrouped(graph, a, rhs, sequence, type, "named", options);
  };
  CHECK_THROWS(poplar::poplar_error, multiply(b, {}));
  CHECK_THROWS(poplar::type_error, multiply(c, {}, poplar::INT));
  CHECK_THROWS(poplar::invalid_option, multiply(c, {{"availableMemoryProportion", "2"}}));
  CHECK_THROWS(poplar::invalid_option, multiply(c, {{"availableMemoryProportion", "0.5x"}}));
  CHECK_THROWS(poplar::invalid_option, multiply(c, {{"partialsType", "double"}}));
  CHECK_THROWS(poplar::invalid_option, multiply(c, {{"fullyConnectedPass", "FORWARD"}}));
  CHECK_THROWS(poplar::invalid_option, multiply(c, {{"noSuchOption", "1"}}));
  CHECK_THROWS(poplar::poplar_error, poplin::matMul(graph, a, c, sequence, poplar::FLOAT));
  CHECK_EQ(multiply(c, {{"availableMemoryProportion", "0.3"}, {"use128BitConvUnitLoad", "true"}}).dim(2), 7u);
}

}  // namespace
