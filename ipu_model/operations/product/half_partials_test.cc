// Half partials: the engines agree bit by bit, and every plan rounds where the device rounds.
#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "check.h"
#include "core/graph/graph_impl.h"
#include "hlo/Convolution.hpp"
#include "kernels/vector/convert.h"
#include "operations/product/matmul.h"
#include "operations/product/matmul_plan.h"
#include "poplar/Engine.hpp"
#include "poplar/Graph.hpp"
#include "poplin/MatMul.hpp"
#include "poputil/TileMapping.hpp"

using namespace ipu_model;
using poplar::Graph;
using poplar::OptionFlags;
using poplar::Target;
using poplar::Tensor;
using poplar::program::Copy;
using poplar::program::Sequence;

namespace {

constexpr unsigned kTiles = 48;
const OptionFlags kHalf = {{"partialsType", "half"}};
using Halves = std::vector<std::uint16_t>;

Halves Random(std::mt19937& random, std::size_t n) {
  std::normal_distribution<float> normal;
  Halves values(n);
  for (std::uint16_t& v : values) v = F32ToF16(normal(random));
  return values;
}

// A graph with two operands and a result on the host.
struct Program {
  Tensor Operand(const std::vector<std::size_t>& shape, const char* name) {
    Tensor t = graph.addVariable(poplar::HALF, shape, name);
    poputil::mapTensorLinearly(graph, t);
    sequence.add(Copy(graph.addHostToDeviceFIFO(name, poplar::HALF, t.numElements()), t));
    return t;
  }
  Halves Run(const Tensor& result, const Halves& a, const Halves& b, const char* execution) {
    const std::string name = "out" + std::to_string(runs++);
    Sequence whole(
        {sequence, Copy(result, graph.addDeviceToHostFIFO(name, poplar::HALF, result.numElements()))});
    poplar::Engine engine(graph, whole, {{"execution", execution}});
    Halves left = a, right = b, out(result.numElements());
    engine.connectStream("a", left.data());
    engine.connectStream("b", right.data());
    engine.connectStream(name, out.data());
    engine.load();
    engine.run(0);
    return out;
  }
  Graph graph{Target::createIPUTarget(1, kTiles, "ipu2")};
  Sequence sequence;
  int runs = 0;
};

// Returns c[m, n] with the depth in `parts` parts of `steps` steps each: sums of 16 k in f32, f16 between
// them, parts added in f32.
Halves Reference(const Halves& a, const Halves& b, std::int64_t rows, std::int64_t depth,
                 std::int64_t columns, std::int64_t parts, std::int64_t steps, std::int64_t stage_sums) {
  const auto half = [](float x) { return F16ToF32(F32ToF16(x)); };
  Halves c;
  for (std::int64_t m = 0; m < rows; ++m) {
    for (std::int64_t n = 0; n < columns; ++n) {
      float total = 0, stage = 0;
      std::int64_t done = 0;  // sums of the first stage
      for (std::int64_t part = 0; part < parts; ++part) {
        const std::int64_t begin = depth * part / parts, extent = depth * (part + 1) / parts - begin;
        float sum = 0;
        for (std::int64_t step = 0; step < steps; ++step) {
          const std::int64_t end = begin + extent * (step + 1) / steps;
          for (std::int64_t first = begin + extent * step / steps; first < end; first += 16) {
            float products = 0;
            for (std::int64_t k = first; k < std::min(first + 16, end); ++k) {
              const auto i = static_cast<std::size_t>(m * depth + k),
                         j = static_cast<std::size_t>(k * columns + n);
              products = __builtin_fmaf(F16ToF32(a[i]), F16ToF32(b[j]), products);
            }
            sum = half(sum + products);
          }
        }
        stage += sum;
        if (stage_sums == 1 || part + 1 == (done + 1) * parts / stage_sums) {
          ++done;
          total += stage_sums > 1 ? half(stage) : stage;
          stage = 0;
        }
      }
      c.push_back(F32ToF16(total));
    }
  }
  return c;
}

TEST(EveryPlanRoundsAsTheDevice) {
  std::mt19937 random(3);
  struct Cut {
    std::int64_t parts, stage_sums, depth_steps, output_steps;
  };
  for (const Cut& cut : std::vector<Cut>{{1, 1, 1, 1},
                                         {12, 1, 1, 1},
                                         {12, 3, 1, 1},
                                         {11, 3, 1, 1},
                                         {1, 1, 3, 1},
                                         {4, 1, 3, 1},
                                         {1, 1, 1, 2},
                                         {1, 1, 3, 2},
                                         {4, 1, 3, 2}}) {
    Program p;
    MatMulPlan plan;
    plan.grid.shape = {1, 11, 6, 700};
    plan.grid.parts = {1, cut.parts == 1 ? 3 : 1, 2, cut.parts};
    plan.grid.grain = {1, 1, 1, 1};
    plan.grid.tile_stride = {0, 2, 1, 2};
    plan.grid.num_tiles = kTiles;
    plan.stage_sums = cut.stage_sums;
    plan.depth_steps = cut.depth_steps;
    plan.output_steps = cut.output_steps;
    plan.partial_type = DType::kF16;
    plan.half_step = 16;
    const Tensor a = p.Operand({1, 11, 700}, "a"), b = p.Operand({1, 700, 6}, "b");
    const Tensor c = NewTensor(p.graph, DType::kF16, {1, 11, 6}, Mapping(OutputGrid(plan)), "c");
    auto operation = MakeMatMul(plan);
    operation->inputs.resize(2);
    operation->outputs.resize(1);
    CHECK(a.asView(&operation->inputs[0]) && b.asView(&operation->inputs[1]) &&
          c.asView(&operation->outputs[0]));
    AddOperation(p.sequence, std::move(operation));
    const Halves av = Random(random, 7700), bv = Random(random, 4200);
    const Halves expected = Reference(av, bv, 11, 700, 6, cut.parts, cut.depth_steps, cut.stage_sums);
    CHECK(p.Run(c, av, bv, "fast") == expected);
    CHECK(p.Run(c, av, bv, "tile") == expected);
  }
}

TEST(PlannedProductsAgreeBetweenEngines) {
  std::mt19937 random(4);
  for (const std::vector<std::size_t>& s : std::vector<std::vector<std::size_t>>{
           {1, 1, 1000, 1}, {1, 40, 1000, 33}, {3, 7, 90, 65}, {1, 100, 16, 100}, {2, 3, 0, 4}}) {
    Program p;
    const Tensor a = p.Operand({s[0], s[1], s[2]}, "a"), b = p.Operand({s[0], s[2], s[3]}, "b");
    const Tensor half = poplin::matMulGrouped(p.graph, a, b, p.sequence, poplar::HALF, "half", kHalf);
    const Tensor full = poplin::matMulGrouped(p.graph, a, b, p.sequence, poplar::HALF, "full");
    const Halves av = Random(random, a.numElements()), bv = Random(random, b.numElements());
    const Halves fast = p.Run(half, av, bv, "fast");
    CHECK(fast == p.Run(half, av, bv, "tile"));
    // With many terms, repeated rounding to f16 must differ from a single rounding.
    CHECK(s[2] < 500 || s[1] == 1 || fast != p.Run(full, av, bv, "fast"));
  }
}

TEST(ConvolutionsAgreeBetweenEngines) {
  std::mt19937 random(5);
  for (const int kind : {0, 1, 2, 3}) {
    Program p;
    hlo::ConvolutionParameters params;
    params.outputType = poplar::HALF;
    params.geometry.spatial = 2;
    params.geometry.feature_groups = kind == 2 ? 2 : 1;
    params.geometry.batch_groups = kind == 3 ? 2 : 1;
    for (int d = 0; d < 2; ++d) {
      params.geometry.window[d].padding_low = kind == 0 ? 0 : 2;
      params.geometry.window[d].stride = kind == 1 ? 2 : 1;
      params.geometry.window[d].lhs_dilation = kind == 3 ? 2 : 1;
      params.geometry.window[d].reversed = kind == 2;
      params.paddingHigh.push_back(1);
    }
    const std::size_t groups = kind == 2 ? 2 : 1;
    const Tensor x = p.Operand({4, 64, 9, 7}, "a"), w = p.Operand({32, 64 / groups, 3, 3}, "b");
    const Tensor half = hlo::convolution(p.graph, x, w, params, {0, 2, 3, 1}, p.sequence, "half", kHalf);
    const Tensor full = hlo::convolution(p.graph, x, w, params, {0, 2, 3, 1}, p.sequence, "full");
    const Halves xv = Random(random, x.numElements()), wv = Random(random, w.numElements());
    const Halves fast = p.Run(half, xv, wv, "fast"), exact = p.Run(full, xv, wv, "fast");
    CHECK(fast == p.Run(half, xv, wv, "tile"));
    CHECK(fast != exact);
    for (std::size_t i = 0; i < fast.size(); ++i) CHECK_NEAR(F16ToF32(fast[i]), F16ToF32(exact[i]), 0.5);
  }
}

}  // namespace
