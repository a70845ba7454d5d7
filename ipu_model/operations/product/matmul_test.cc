// Tests matrix products on the device: every plan gives exact results vertex by vertex, weights are not
// moved, and the planner respects memory limits and options.
#include "operations/product/matmul.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "check.h"
#include "core/graph/graph_impl.h"
#include "core/operation/serialise.h"
#include "core/program/program_node.h"
#include "core/target/target_model.h"
#include "core/vertices/limits_buffers.h"
#include "engine/report/device_report.h"
#include "ipu_model/Model.hpp"
#include "operations/product/matmul_plan.h"
#include "operations/product/matmul_steps.h"
#include "operations/product/product_cost.h"
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

const Mapping& MappingOf(const Graph& graph, const Tensor& tensor) {
  View view;
  CHECK(tensor.asView(&view));
  return graph.impl().variables[view.variable].mapping;
}

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

TEST(PlanningCacheRemembers) {
  Graph graph(Target::createIPUTarget(1, kTiles, "ipu2"));
  Sequence sequence;
  Tensor a = graph.addVariable(poplar::FLOAT, {1, 40, 50}, "a"),
         b = graph.addVariable(poplar::FLOAT, {1, 50, 60}, "b");
  poputil::mapTensorLinearly(graph, a);
  poputil::mapTensorLinearly(graph, b);
  poplin::matmul::PlanningCache cache;
  Tensor c = poplin::matMulGrouped(graph, a, b, sequence, poplar::FLOAT, "first", {}, &cache);
  CHECK_EQ(cache.size(), 1u);
  Tensor d = poplin::matMulGrouped(graph, a, b, sequence, poplar::FLOAT, "second", {}, &cache);
  CHECK_EQ(cache.size(), 1u);
  CHECK(MappingOf(graph, c) == MappingOf(graph, d));
  poplin::matMulGrouped(graph, a, b, sequence, poplar::FLOAT, "third", {{"availableMemoryProportion", "0.3"}},
                        &cache);
  CHECK_EQ(cache.size(), 2u);
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

// In a training step, the weights, their gradient and the transposed weights of the backward pass share one
// tile mapping. The rows of x stay in the AMP, 16 on a tile, and the tiles of a block of weights each hold a
// share of it: `held` is what the forward product's tiles hold of what they read. `true` marks the other
// products that use the mapping in place: the update writes the gradient there, the backward product reads
// the weights there. A product marked `false` is faster on another grid by more than the cost of the
// exchange.
TEST(WeightsStayWhereTheyAre) {
  struct Layer {
    std::size_t batch, k, n;
    double held;
    bool backward, update;
  };
  // The last ones are the two large layers of examples/mnist/mnist_classifier.py.
  for (const Layer& layer : std::vector<Layer>{{32, 512, 512, 0.5, false, false},
                                               {32, 784, 512, 0.5, false, false},
                                               {32, 512, 10, 1.0 / 32, false, false},
                                               {32, 97, 61, 0.25, false, false},
                                               {32, 784, 1024, 0.5, false, false},
                                               {64, 784, 1024, 0.25, false, false},
                                               {32, 1024, 1024, 0.5, false, false},
                                               {64, 1024, 1024, 0.25, false, true},
                                               {128, 1024, 1024, 0.125, false, false}}) {
    Graph graph(Target::createIPUTarget(1, "ipu2"));
    Sequence sequence;
    const std::size_t batch = layer.batch, k = layer.k, n = layer.n;
    const OptionFlags forward = {{"fullyConnectedPass", "TRAINING_FWD"}};
    Tensor weights = poplin::createMatMulGroupedInputRHS(graph, poplar::FLOAT, poplar::FLOAT, {1, batch, k},
                                                         {1, k, n}, "weights", forward);
    Tensor x = graph.addVariable(poplar::FLOAT, {1, batch, k}, "x"),
           dy = graph.addVariable(poplar::FLOAT, {1, batch, n}, "dy");
    poputil::mapTensorLinearly(graph, x);
    poputil::mapTensorLinearly(graph, dy);
    poplin::matMulGrouped(graph, x, weights, sequence, poplar::FLOAT, "forward", forward);
    poplin::matMulGrouped(graph, dy, poplin::transposeGroupedMatrix(weights), sequence, poplar::FLOAT,
                          "backward", {{"fullyConnectedPass", "TRAINING_BWD"}});
    Tensor gradient = NewTensorMappedLike(graph, poplar::FLOAT, weights, "gradient");
    poplin::matMulGroupedWithOutput(graph, poplin::transposeGroupedMatrix(x), dy, gradient, sequence,
                                    "update", {{"fullyConnectedPass", "TRAINING_WU"}});
    CHECK(MappingOf(graph, gradient) == MappingOf(graph, weights));

    class Context : public DeviceContext {
     public:
      explicit Context(const Graph& graph) : graph_(graph) {}
      const TargetModel& target() const override { return graph_.getTarget().model(); }
      unsigned num_tiles() const override { return graph_.getTarget().getNumTiles(); }
      unsigned all_tiles() const override { return num_tiles(); }
      const Mapping& mapping(VariableId v) const override { return graph_.impl().variables[v].mapping; }

     private:
      const Graph& graph_;
    } context(graph);
    // Returns the fraction of the product vertices' reads of operand `index` that is already on their tiles.
    const auto held = [&](const Operation& operation, unsigned index) {
      double need = 0, have = 0;
      const TilePlan plan = operation.Plan(context);
      const VertexGroup& group = plan.supersteps[0].groups[0];
      for (const Vertex& v : group.vertices) {
        const Box region = group.reads[index].region(v.box);
        need += static_cast<double>(region.num_elements());
        have += static_cast<double>(
            context.mapping(operation.inputs[index].variable).Held(v.tile, operation.inputs[index], region));
      }
      return have / need;
    };
    View weights_view, gradient_view;
    CHECK(weights.asView(&weights_view) && gradient.asView(&gradient_view));
    std::vector<const Operation*> products;
    for (const auto& child : sequence.node()->children) {
      if (child->operation != nullptr) products.push_back(child->operation.get());
    }
    CHECK_EQ(products.size(), 3u);
    if (products.size() != 3) continue;
    CHECK_EQ(products[0]->inputs[1].variable, weights_view.variable);
    CHECK_EQ(products[1]->inputs[1].variable, weights_view.variable);
    CHECK_EQ(products[2]->outputs[0].variable, gradient_view.variable);
    CHECK_NEAR(held(*products[0], 1), layer.held, 0.0);
    if (layer.backward) CHECK_NEAR(held(*products[1], 1), 1.0, 0.0);
    // The update runs on the gradient's tiles: one superstep, no partial sums.
    if (layer.update) CHECK_EQ(products[2]->Plan(context).supersteps.size(), 1u);
  }
}

TEST(PlanningEndsInTime) {
  const TargetModel& target = FindTargetModel("ipu2");
  MatMulProblem problem;
  problem.rows = problem.columns = problem.depth = 8192;
  problem.a_type = problem.b_type = problem.out_type = DType::kF16;
  const MatMulPlan plan = PlanMatMul(target, target.num_tiles, problem);
  const Deadline over(0);
  CHECK_THROWS(OutOfTime, PlanMatMul(target, target.num_tiles, problem));
  CHECK_THROWS(OutOfTime, VerticesOfStep({}, kRowDim, 0, 2));
  CHECK_THROWS(OutOfTime, OutputVertices(plan));
}

TEST(PlansFitTheirMemory) {
  const TargetModel& target = FindTargetModel("bow");
  for (const double proportion : {0.6, 0.2, 0.05}) {
    for (const Shapes& s :
         std::vector<Shapes>{{1, 4096, 4096, 4096}, {1, 1024, 1024, 65536}, {16, 512, 64, 512}}) {
      MatMulProblem problem;
      problem.groups = static_cast<std::int64_t>(s.g);
      problem.rows = static_cast<std::int64_t>(s.m);
      problem.depth = static_cast<std::int64_t>(s.k);
      problem.columns = static_cast<std::int64_t>(s.n);
      problem.a_type = problem.b_type = problem.out_type = DType::kF16;
      problem.options.available_memory_proportion = proportion;
      const MatMulPlan plan = PlanMatMul(target, target.num_tiles, problem);
      CHECK(plan.temporary_bytes <= proportion * target.bytes_per_tile);
      CHECK(plan.grid.num_parts() <= target.num_tiles);
      std::set<unsigned> tiles;
      for (const Vertex& v : plan.grid.Vertices()) tiles.insert(v.tile);
      CHECK_EQ(static_cast<std::int64_t>(tiles.size()), plan.grid.num_parts());
    }
  }
}

// Published measurements on Bow: tessellate-ipu's "IPU Peak Flops" notebook, every tile [n,16] x [16,16] in
// f16; 45 cycles of timer overhead are subtracted.
TEST(TileCyclesMatchMeasurements) {
  const TargetModel& target = FindTargetModel("bow");
  const std::vector<std::pair<std::int64_t, double>> measured = {{16, 402},    {32, 461.3},   {64, 584},
                                                                 {128, 845.3}, {256, 1352},   {512, 2381.3},
                                                                 {1024, 4424}, {2048, 8525.3}};
  for (const auto& [rows, cycles] : measured) {
    const auto model =
        static_cast<double>(ProductCycles(target, DType::kF16, DType::kF16, {1, rows, 16, 16}, false));
    CHECK_NEAR(model / cycles, 1.0, 0.025);
  }
}

// Whole-chip f16 products of PopSparse (arXiv 2303.16999), figure dense_ipu_gpu, digitised: square weights of
// this size times n columns, in TFLOP/s. Partial sums are f32, PopLibs' default. The digitisation alone has
// an error of 2 to 4 %.
TEST(WholeChipCyclesMatchMeasurements) {
  struct Point {
    std::int64_t size, n;
    double tflops;
  };
  const std::vector<Point> points = {
      {1024, 4, 6.04},       {1024, 16, 20.3},      {1024, 64, 45.54},    {1024, 256, 89.05},
      {1024, 1024, 120.08},  {1024, 4096, 179.85},  {1024, 8192, 205.77}, {1024, 16384, 223.08},
      {1024, 32768, 223.08}, {1024, 65536, 235.43}, {4096, 4, 18.23},     {4096, 16, 61.24},
      {4096, 64, 129.83},    {4096, 256, 175.07},   {4096, 1024, 208.56}, {8192, 4, 21.54},
      {8192, 16, 72.18},     {8192, 64, 157.19},    {8192, 256, 223.08}};
  const TargetModel& target = FindTargetModel("bow");
  std::vector<double> errors;
  for (const Point& point : points) {
    MatMulProblem problem;
    problem.columns = point.n;
    problem.depth = problem.rows = point.size;
    problem.a_type = problem.b_type = problem.out_type = DType::kF16;
    problem.a_follows_plan = problem.b_follows_plan = true;
    // With float partial sums no product can exceed 174 TFLOP/s.
    problem.options.half_partials = true;
    const double flops = 2.0 * static_cast<double>(point.size * point.size * point.n);
    const double measured = flops / (point.tflops * 1e12) * target.clock_hz;
    errors.push_back(std::abs(PlanMatMul(target, target.num_tiles, problem).cycles / measured - 1));
    // The smallest products consist of fixed costs, of which the source has only a part.
    CHECK(errors.back() < (point.size == 1024 && point.n <= 64 ? 0.35 : 0.25));
  }
  std::sort(errors.begin(), errors.end());
  CHECK(errors[errors.size() / 2] < 0.1);
}

// The cycles that the compiler derives from the vertices and their exchange equal the planner's estimates.
void CheckReport(const Shapes& s, const OptionFlags& options, double share, double tolerance) {
  Graph graph(Target::createIPUTarget(1, "bow"));
  Sequence sequence;
  const Dims a_shape = {s.g, s.m, s.k}, b_shape = {s.g, s.k, s.n};
  Tensor a =
      poplin::createMatMulGroupedInputLHS(graph, poplar::HALF, poplar::HALF, a_shape, b_shape, "a", options);
  Tensor b =
      poplin::createMatMulGroupedInputRHS(graph, poplar::HALF, poplar::HALF, a_shape, b_shape, "b", options);
  poplin::matMulGrouped(graph, a, b, sequence, poplar::HALF, "product", options);
  MatMulProblem problem;
  problem.groups = static_cast<std::int64_t>(s.g);
  problem.rows = static_cast<std::int64_t>(s.m);
  problem.depth = static_cast<std::int64_t>(s.k);
  problem.columns = static_cast<std::int64_t>(s.n);
  problem.a_type = problem.b_type = problem.out_type = DType::kF16;
  problem.options.available_memory_proportion = share;
  View a_view, b_view;
  CHECK(a.asView(&a_view) && b.asView(&b_view));
  const unsigned tiles = graph.getTarget().getNumTiles();
  problem.a = OperandMappingOf(a_view, MappingOf(graph, a), tiles);
  problem.b = OperandMappingOf(b_view, MappingOf(graph, b), tiles);
  const double planned = PlanMatMul(graph.getTarget().model(), tiles, problem).cycles;
  const poplar::Executable executable = poplar::compileGraph(graph, {sequence});
  double reported = 0;
  for (const OperationCost& cost : ipu_model::ReportOf(executable).operations)
    if (cost.kind == "poplin::matMulGrouped") reported += static_cast<double>(cost.cycles.total());
  CHECK_NEAR(reported / planned, 1.0, tolerance);
}

TEST(ReportAgreesWithPlanner) {
  for (const Shapes& s :
       std::vector<Shapes>{{1, 64, 512, 512}, {1, 256, 1024, 1024}, {1, 4, 2048, 512}, {8, 64, 64, 64}})
    CheckReport(s, {}, 0.6, 0.15);
}

// A tile receives what a step writes of its part of the result, not all of that part.
TEST(ReportOfStepsAgreesWithPlanner) {
  for (const auto& [share, proportion] :
       std::vector<std::pair<double, const char*>>{{0.1, "0.1"}, {0.3, "0.3"}})
    CheckReport({1, 4096, 4096, 4096}, {{"availableMemoryProportion", proportion}}, share, 0.08);
}

// A step has whole groups of the matrix unit's channels: 86 steps over 2,048 rows would leave a third idle.
TEST(StepsHaveWholeGroups) {
  MatMulProblem problem;
  problem.rows = problem.columns = problem.depth = 4096;
  problem.a_type = problem.b_type = problem.out_type = DType::kF16;
  problem.a_follows_plan = problem.b_follows_plan = true;
  problem.options.available_memory_proportion = 0.1;
  const MatMulPlan plan = PlanMatMul(FindTargetModel("ipu2"), 1472, problem);
  CHECK(plan.output_steps > 1);
  const std::int64_t block = plan.grid.LargestPart(plan.output_dim);
  CHECK_EQ((block + plan.output_steps - 1) / plan.output_steps % 8, 0);
  constexpr double kPopLibs = 2880048;  // reportPlanEstimatedCosts
  CHECK_NEAR(plan.cycles / kPopLibs, 1.0, 0.05);
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

int main() { return jax_ipu::testing::RunTests(); }
