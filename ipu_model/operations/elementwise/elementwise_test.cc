// Elementwise operations, fills and reductions: whole tensors and single vertices give the same results.
#include "hlo/Elementwise.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "check.h"
#include "core/vertices/limits_buffers.h"
#include "hlo/Reduce.hpp"
#include "kernels/elementwise/program/expression.h"
#include "poplar/exceptions.hpp"
#include "testing/plan_runner.h"
#include "testing/test_instructions.h"

namespace ipu_model {
namespace {

using poplar::FLOAT;
using poplar::Graph;
using poplar::Target;
using poplar::Tensor;
using poplar::program::Sequence;

// (a - b) * c and max(a, c).
Expression TwoResults() {
  Expression e;
  e.inputs = {DType::kF32, DType::kF32, DType::kF32};
  e.code = {Op(ScalarOp::kSubtract, DType::kF32, DType::kF32, 0, 1),
            Op(ScalarOp::kMultiply, DType::kF32, DType::kF32, 3, 2),
            Op(ScalarOp::kMaximum, DType::kF32, DType::kF32, 0, 2)};
  e.outputs = {4, 5};
  return e;
}

std::vector<float> RandomFloats(std::size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(n);
  for (float& v : values) v = normal(random);
  return values;
}
Graph SmallGraph(unsigned tiles) { return Graph(Target::createIPUTarget(1, tiles, "ipu2")); }
Tensor Linear(Graph& graph, poplar::Type type, const std::vector<std::size_t>& shape) {
  const Tensor t = graph.addVariable(type, shape, "t");
  poputil::mapTensorLinearly(graph, t, 1, 1);
  return t;
}
std::vector<float> Floats(const Bytes& bytes) {
  std::vector<float> values(bytes.size() / 4);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

TEST(MapWithBroadcastsAndSeveralResults) {
  Graph graph = SmallGraph(7);
  const Tensor a = Linear(graph, FLOAT, {5, 13}), b = Linear(graph, FLOAT, {13}),
               c = Linear(graph, FLOAT, {5, 1});
  Sequence prog;
  const auto out = hlo::map(graph, TwoResults(), {a, b.expand({0}).broadcast(5, 0), c.broadcast(13, 1)},
                            {Tensor(), Tensor()}, prog, "map");
  CHECK_EQ(out.size(), 2u);
  const auto x = RandomFloats(65, 1), y = RandomFloats(13, 2), z = RandomFloats(5, 3);
  for (const bool vertices : {false, true}) {
    PlanRunner runner(graph, 0);
    runner.Store(a, x.data());
    runner.Store(b, y.data());
    runner.Store(c, z.data());
    vertices ? runner.RunVertices(prog) : runner.RunWhole(prog);
    const auto first = Floats(runner.Load(out[0])), second = Floats(runner.Load(out[1]));
    for (std::size_t i = 0; i < 5; ++i) {
      for (std::size_t j = 0; j < 13; ++j) {
        CHECK_EQ(first[i * 13 + j], (x[i * 13 + j] - y[j]) * z[i]);
        CHECK_EQ(second[i * 13 + j], std::max(x[i * 13 + j], z[i]));
      }
    }
    if (vertices) CHECK(runner.cycles() > 0);
  }
}

TEST(MapInPlaceAndIntoTwoMappings) {
  Graph graph = SmallGraph(5);
  const Tensor a = Linear(graph, FLOAT, {24}), b = Linear(graph, FLOAT, {24}), c = Linear(graph, FLOAT, {24});
  const Tensor elsewhere = graph.addVariable(FLOAT, {24}, "elsewhere");
  graph.setTileMapping(elsewhere, 4);
  Sequence prog;
  hlo::map(graph, TwoResults(), {a, b, c}, {a, elsewhere}, prog, "map");
  const auto x = RandomFloats(24, 1), y = RandomFloats(24, 2), z = RandomFloats(24, 3);
  for (const bool vertices : {false, true}) {
    PlanRunner runner(graph, 0);
    runner.Store(a, x.data());
    runner.Store(b, y.data());
    runner.Store(c, z.data());
    vertices ? runner.RunVertices(prog) : runner.RunWhole(prog);
    const auto first = Floats(runner.Load(a)), second = Floats(runner.Load(elsewhere));
    for (std::size_t i = 0; i < 24; ++i) {
      CHECK_EQ(first[i], (x[i] - y[i]) * z[i]);
      CHECK_EQ(second[i], std::max(x[i], z[i]));
    }
  }
}

TEST(MapRefusesWhatDoesNotFit) {
  Graph graph = SmallGraph(2);
  const Tensor a = Linear(graph, FLOAT, {4}), b = Linear(graph, FLOAT, {5});
  Sequence prog;
  CHECK_THROWS(poplar::poplar_error,
               hlo::map(graph, TwoResults(), {a, a, b}, {Tensor(), Tensor()}, prog, "m"));
  CHECK_THROWS(poplar::poplar_error, hlo::map(graph, TwoResults(), {a, a}, {Tensor(), Tensor()}, prog, "m"));
  Expression bad = BinaryBody(ScalarOp::kShiftLeft, DType::kF32);
  CHECK_THROWS(poplar::poplar_error, hlo::map(graph, bad, {a, a}, {Tensor()}, prog, "m"));
}

TEST(OutputTakesTheBestSpreadMapping) {
  Graph graph = SmallGraph(8);
  const Tensor one_tile = graph.addVariable(FLOAT, {32}, "one");
  graph.setTileMapping(one_tile, 3);
  const Tensor spread = Linear(graph, FLOAT, {32});
  Sequence prog;
  const Tensor out =
      hlo::map(graph, BinaryBody(ScalarOp::kAdd, DType::kF32), {one_tile, spread}, {Tensor()}, prog)[0];
  CHECK(graph.getTileMapping(out) == graph.getTileMapping(spread));
}

TEST(OutputLiesWhereMostBytesAre) {
  Graph graph = SmallGraph(8);
  const auto columns = [&] {
    const Tensor t = graph.addVariable(FLOAT, {64, 64}, "columns");
    for (unsigned tile = 0; tile < 8; ++tile) graph.setTileMapping(t.slice(8 * tile, 8 * tile + 8, 1), tile);
    return t;
  };
  const Tensor by_columns = columns(), others = columns(), linear = Linear(graph, FLOAT, {64, 64});
  for (const std::vector<Tensor>& operands :
       {std::vector{linear, by_columns, others}, {by_columns, linear, others}}) {
    Sequence prog;
    const auto out = hlo::map(graph, TwoResults(), operands, {Tensor(), Tensor()}, prog, "map");
    CHECK(graph.getTileMapping(out[0]) == graph.getTileMapping(by_columns));
  }
  // With one of each, the wider type counts.
  const Tensor narrow = Linear(graph, poplar::HALF, {64, 64});
  Expression sum;
  sum.inputs = {DType::kF16, DType::kF32};
  sum.code = {Op(ScalarOp::kConvert, DType::kF16, DType::kF32, 0),
              Op(ScalarOp::kAdd, DType::kF32, DType::kF32, 2, 1)};
  sum.outputs = {3};
  Sequence prog;
  const Tensor out = hlo::map(graph, sum, {narrow, by_columns}, {Tensor()}, prog, "map")[0];
  CHECK(graph.getTileMapping(out) == graph.getTileMapping(by_columns));
}

TEST(MapInStepsNeedsLessMemory) {
  for (const bool in_place : {false, true}) {
    Graph graph = SmallGraph(7);
    const Tensor a = Linear(graph, FLOAT, {60, 39}), b = Linear(graph, FLOAT, {39, 60}).transpose(),
                 c = Linear(graph, FLOAT, {60, 1});
    Sequence prog;
    const auto out = hlo::map(graph, TwoResults(), {a, b, c.broadcast(39, 1)},
                              {in_place ? a : Tensor(), Tensor()}, prog, "map");
    auto& limits = dynamic_cast<LimitsBuffers&>(*prog.node()->children.back()->operation);
    const auto x = RandomFloats(2340, 1), y = RandomFloats(2340, 2), z = RandomFloats(60, 3);
    std::size_t fewest = 1;
    for (const std::int64_t limit : {0, 100000, 600, 512}) {
      if (limit > 0) CHECK(limits.CanDoWith(limit) && limits.LimitBuffers(limit));
      PlanRunner runner(graph, 0);
      runner.Store(a, x.data());
      runner.Store(b, y.data());
      runner.Store(c, z.data());
      runner.RunVertices(prog);
      CHECK(runner.supersteps() >= fewest);
      fewest = runner.supersteps();
      const auto first = Floats(runner.Load(out[0])), second = Floats(runner.Load(out[1]));
      for (std::size_t i = 0; i < 2340; ++i) {
        CHECK_EQ(first[i], (x[i] - y[i]) * z[i / 39]);
        CHECK_EQ(second[i], std::max(x[i], z[i / 39]));
      }
    }
    CHECK(fewest > 1);
  }
}

TEST(MapKeepsItsStepWhereOneReplacesWhatAnotherReads) {
  Graph graph = SmallGraph(4);
  const Tensor a = Linear(graph, FLOAT, {65}), b = Linear(graph, FLOAT, {64}), c = Linear(graph, FLOAT, {64});
  Sequence prog;
  hlo::map(graph, TwoResults(), {a.slice(0, 64), b, c}, {a.slice(1, 65), Tensor()}, prog, "map");
  CHECK(!dynamic_cast<LimitsBuffers&>(*prog.node()->children.back()->operation).CanDoWith(512));
}

TEST(FillAndIota) {
  Graph graph = SmallGraph(6);
  const Tensor a = Linear(graph, FLOAT, {3, 11}), b = Linear(graph, poplar::INT, {3, 11}),
               c = Linear(graph, poplar::HALF, {40});
  Sequence prog;
  const float value = 2.5f;
  hlo::fill(graph, a.slice(2, 9, 1), std::string(reinterpret_cast<const char*>(&value), 4), prog, "fill");
  hlo::iota(graph, b, 0, prog, "iota");
  hlo::iota(graph, b.slice(1, 4, 1), 1, prog, "iota");
  hlo::iota(graph, c, 0, prog, "iota");
  const std::vector<float> zeros(33, 0.0f);
  for (const bool vertices : {false, true}) {
    PlanRunner runner(graph, 0);
    runner.Store(a, zeros.data());
    vertices ? runner.RunVertices(prog) : runner.RunWhole(prog);
    const auto filled = Floats(runner.Load(a));
    const Bytes counted = runner.Load(b), halves = runner.Load(c);
    for (std::size_t i = 0; i < 3; ++i) {
      for (std::size_t j = 0; j < 11; ++j) {
        CHECK_EQ(filled[i * 11 + j], j >= 2 && j < 9 ? 2.5f : 0.0f);
        std::int32_t count;
        std::memcpy(&count, counted.data() + 4 * (i * 11 + j), 4);
        CHECK_EQ(count, static_cast<std::int32_t>(j >= 1 && j < 4 ? j - 1 : i));
      }
    }
    std::uint16_t last;
    std::memcpy(&last, halves.data() + 78, 2);
    CHECK_EQ(last, 0x50e0);  // 39
  }
}

void CheckSum(const std::vector<std::size_t>& shape, const std::vector<std::size_t>& dims, unsigned tiles) {
  Graph graph = SmallGraph(tiles);
  const Tensor a = Linear(graph, FLOAT, shape);
  const float init = 1.5f;
  const Tensor start = graph.addConstant(FLOAT, {}, &init, "init");
  graph.setTileMapping(start, 0);
  Sequence prog;
  const Tensor out =
      hlo::reduce(graph, {a}, {start}, dims, BinaryBody(ScalarOp::kAdd, DType::kF32), prog, "sum")[0];
  const auto x = RandomFloats(a.numElements(), 5);
  std::vector<double> expected(out.numElements(), 1.5);
  for (std::size_t i = 0; i < x.size(); ++i) {
    std::size_t rest = i, at = 0, scale = 1;
    for (std::size_t d = shape.size(); d-- > 0;) {
      const std::size_t index = rest % shape[d];
      rest /= shape[d];
      if (std::find(dims.begin(), dims.end(), d) != dims.end()) continue;
      at += index * scale;
      scale *= shape[d];
    }
    expected[at] += static_cast<double>(x[i]);
  }
  for (const bool vertices : {false, true}) {
    PlanRunner runner(graph, 0);
    runner.Store(a, x.data());
    vertices ? runner.RunVertices(prog) : runner.RunWhole(prog);
    const auto got = Floats(runner.Load(out));
    CHECK_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) CHECK_NEAR(static_cast<double>(got[i]), expected[i], 1e-4);
  }
}

TEST(SumsOverAnyDimensions) {
  for (const unsigned tiles : {1u, 4u, 37u}) {
    CheckSum({1000}, {0}, tiles);
    CheckSum({33, 50}, {0}, tiles);
    CheckSum({33, 50}, {1}, tiles);
    CheckSum({33, 50}, {0, 1}, tiles);
    CheckSum({33, 50}, {}, tiles);
    CheckSum({4, 5, 6, 7}, {0, 2}, tiles);
    CheckSum({4, 5, 6, 7}, {3, 1}, tiles);
    CheckSum({0, 3}, {0}, tiles);
    CheckSum({5000, 3}, {0}, tiles);
  }
}

TEST(ArgMaxFindsTheFirst) {
  Graph graph = SmallGraph(9);
  const Tensor values = Linear(graph, FLOAT, {6, 200}), indices = Linear(graph, poplar::INT, {6, 200});
  const float lowest = -std::numeric_limits<float>::infinity();
  const std::int32_t zero = 0;
  const Tensor value_init = graph.addConstant(FLOAT, {}, &lowest, "v"),
               index_init = graph.addConstant(poplar::INT, {}, &zero, "i");
  graph.setTileMapping(value_init, 0);
  graph.setTileMapping(index_init, 0);
  Sequence prog;
  hlo::iota(graph, indices, 1, prog, "iota");
  const auto out = hlo::reduce(graph, {values, indices}, {value_init, index_init}, {1},
                               BestAndPlace(true, DType::kF32), prog, "argmax");
  auto x = RandomFloats(1200, 7);
  x[0 * 200 + 150] = x[0 * 200 + 20] = 50;                                    // a tie
  x[1 * 200 + 199] = std::numeric_limits<float>::quiet_NaN();                 // NaN wins over all values
  x[2 * 200 + 7] = x[2 * 200 + 3] = std::numeric_limits<float>::quiet_NaN();  // the first NaN
  x[3 * 200 + 0] = 60;
  for (int j = 0; j < 200; ++j) x[4 * 200 + j] = lowest;
  x[5 * 200 + 199] = 60;
  const std::int32_t expected[6] = {20, 199, 3, 0, 0, 199};
  for (const bool vertices : {false, true}) {
    PlanRunner runner(graph, 0);
    runner.Store(values, x.data());
    vertices ? runner.RunVertices(prog) : runner.RunWhole(prog);
    const Bytes got = runner.Load(out[1]);
    for (std::size_t i = 0; i < 6; ++i) {
      std::int32_t index;
      std::memcpy(&index, got.data() + 4 * i, 4);
      CHECK_EQ(index, expected[i]);
    }
    CHECK(std::isnan(Floats(runner.Load(out[0]))[1]));
  }
}

TEST(HalfSumsAreKeptInFloat) {
  Graph graph = SmallGraph(4);
  const Tensor a = Linear(graph, poplar::HALF, {4096});
  const std::uint16_t zero = 0, one = 0x3c00;
  const Tensor init = graph.addConstant(poplar::HALF, {}, static_cast<const void*>(&zero), "init");
  graph.setTileMapping(init, 0);
  Sequence prog;
  const Tensor out =
      hlo::reduce(graph, {a}, {init}, {0}, BinaryBody(ScalarOp::kAdd, DType::kF16), prog, "sum")[0];
  const std::vector<std::uint16_t> ones(4096, one);  // a sum of these in f16, one by one, stops at 2048
  for (const bool vertices : {false, true}) {
    PlanRunner runner(graph, 0);
    runner.Store(a, ones.data());
    vertices ? runner.RunVertices(prog) : runner.RunWhole(prog);
    std::uint16_t sum;
    std::memcpy(&sum, runner.Load(out).data(), 2);
    CHECK_EQ(sum, 0x6c00);  // 4096
  }
}

}  // namespace
}  // namespace ipu_model
