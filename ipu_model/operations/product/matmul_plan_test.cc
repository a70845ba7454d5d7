// Tests plans of matrix products: they fit their memory, take the cycles that were measured and that the
// compiler reports, leave weights where they are, and are remembered.
#include "operations/product/matmul_plan.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "check.h"
#include "core/graph/graph_impl.h"
#include "core/program/program_node.h"
#include "core/target/target_model.h"
#include "ipu_model/FirstTile.hpp"
#include "ipu_model/Model.hpp"
#include "operations/product/matmul_steps.h"
#include "operations/product/product_cost.h"
#include "poplar/Engine.hpp"
#include "poplar/Graph.hpp"
#include "poplin/MatMul.hpp"
#include "poputil/TileMapping.hpp"

using namespace ipu_model;
using poplar::Graph;
using poplar::OptionFlags;
using poplar::Target;
using poplar::Tensor;
using poplar::program::Sequence;

namespace {

struct Shapes {
  std::size_t g, m, k, n;
};

// The product of these shapes in f16.
MatMulProblem HalfProblem(const Shapes& s) {
  MatMulProblem problem;
  problem.groups = static_cast<std::int64_t>(s.g);
  problem.rows = static_cast<std::int64_t>(s.m);
  problem.depth = static_cast<std::int64_t>(s.k);
  problem.columns = static_cast<std::int64_t>(s.n);
  problem.a_type = problem.b_type = problem.out_type = DType::kF16;
  return problem;
}

const Mapping& MappingOf(const Graph& graph, const Tensor& tensor) {
  View view;
  CHECK(tensor.asView(&view));
  return graph.impl().variables[view.variable].mapping;
}

TEST(PlanningCacheRemembers) {
  Graph graph(Target::createIPUTarget(1, 48, "ipu2"));
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
  MatMulProblem problem = HalfProblem({1, 8192, 8192, 8192});
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
      MatMulProblem problem = HalfProblem(s);
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
// this size times n columns, in TFLOP/s. Partial sums are half here: with f32 ones no product can exceed
// 174 TFLOP/s. The digitisation alone has an error of 2 to 4 %.
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
    const auto size = static_cast<std::size_t>(point.size);
    MatMulProblem problem = HalfProblem({1, size, size, static_cast<std::size_t>(point.n)});
    problem.a_follows_plan = problem.b_follows_plan = true;
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
  const std::vector<std::size_t> a_shape = {s.g, s.m, s.k}, b_shape = {s.g, s.k, s.n};
  Tensor a =
      poplin::createMatMulGroupedInputLHS(graph, poplar::HALF, poplar::HALF, a_shape, b_shape, "a", options);
  Tensor b =
      poplin::createMatMulGroupedInputRHS(graph, poplar::HALF, poplar::HALF, a_shape, b_shape, "b", options);
  poplin::matMulGrouped(graph, a, b, sequence, poplar::HALF, "product", options);
  MatMulProblem problem = HalfProblem(s);
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

// PopLibs' vertex writes half results of one group of channels without float partial sums, with all 16 units.
TEST(OneGroupOfChannelsHasHalfResults) {
  const TargetModel& target = Target::createIPUTarget(1, "bow").model();
  const auto plan = [&](const MatMulProblem& problem) {
    return PlanMatMul(target, target.num_tiles, problem);
  };
  for (const std::size_t depth : {1, 8, 16}) {
    const MatMulProblem problem = HalfProblem({1, 4096, depth, 512});
    MatMulProblem half_partials = problem;
    half_partials.options.half_partials = true;
    const MatMulPlan chosen = plan(problem);
    CHECK(chosen.partial_type == DType::kF16);
    CHECK_EQ(chosen.half_step, 0);
    CHECK_EQ(chosen.grid.parts[kDepthDim], 1);
    CHECK_EQ(chosen.cycles, plan(half_partials).cycles);
  }
  MatMulProblem problem = HalfProblem({1, 4096, 16, 512});
  problem.out_type = DType::kF32;
  CHECK(plan(problem).partial_type == DType::kF32);
  problem = HalfProblem({1, 4096, 16, 512});
  problem.options.pass = MatMulOptions::Pass::kTrainingForward;
  CHECK(plan(problem).partial_type == DType::kF32);
  CHECK(plan(HalfProblem({1, 4096, 17, 512})).partial_type == DType::kF32);
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

// Operands and a product that uses none of them in place start where they are told to, at the same cost.
TEST(PlansStartWhereTheyAreToldTo) {
  constexpr unsigned kTiles = 1472, kStart = 700;
  std::vector<std::uint64_t> cycles;
  std::vector<std::vector<unsigned>> firsts;
  for (const unsigned start : {0u, kStart}) {
    Graph graph(Target::createIPUTarget(1, kTiles, "ipu2"));
    Sequence sequence;
    const std::vector<std::size_t> a_shape = {1, 64, 500}, b_shape = {1, 500, 300};
    ipu_model::StartLinearMappingsAt(graph, start);
    const Tensor a =
        poplin::createMatMulGroupedInputLHS(graph, poplar::HALF, poplar::HALF, a_shape, b_shape, "a", {});
    const Tensor b =
        poplin::createMatMulGroupedInputRHS(graph, poplar::HALF, poplar::HALF, a_shape, b_shape, "b", {});
    const Tensor c = poplin::matMulGrouped(graph, a, b, sequence, poplar::HALF, "product", {});
    Tensor x = graph.addVariable(poplar::HALF, {1, 64, 500}, "x"),
           y = graph.addVariable(poplar::HALF, {1, 500, 300}, "y");
    poputil::mapTensorLinearlyWithOffset(graph, x, start);
    poputil::mapTensorLinearlyWithOffset(graph, y, start);
    const Tensor z = poplin::matMulGrouped(graph, x, y, sequence, poplar::HALF, "moved", {});
    firsts.emplace_back();
    for (const Tensor& tensor : {a, b, c, z}) firsts.back().push_back(MappingOf(graph, tensor).TileOf(0));
    cycles.push_back(ipu_model::ReportOf(poplar::compileGraph(graph, {sequence})).cycles.total());
  }
  CHECK_EQ(cycles[0], cycles[1]);
  for (std::size_t i = 0; i < firsts[0].size(); ++i) CHECK_EQ((firsts[0][i] + kStart) % kTiles, firsts[1][i]);
}

// A step has whole groups of the matrix unit's channels: 86 steps over 2,048 rows would leave a third idle.
TEST(StepsHaveWholeGroups) {
  MatMulProblem problem = HalfProblem({1, 4096, 4096, 4096});
  problem.a_follows_plan = problem.b_follows_plan = true;
  problem.options.available_memory_proportion = 0.1;
  const MatMulPlan plan = PlanMatMul(FindTargetModel("ipu2"), 1472, problem);
  CHECK(plan.output_steps > 1);
  const std::int64_t block = plan.grid.LargestPart(plan.output_dim);
  CHECK_EQ((block + plan.output_steps - 1) / plan.output_steps % 8, 0);
  constexpr double kPopLibs = 2880048;  // reportPlanEstimatedCosts
  CHECK_NEAR(plan.cycles / kPopLibs, 1.0, 0.05);
}

}  // namespace
