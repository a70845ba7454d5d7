// The popops functions: expressions, broadcasting, casts, fills and reductions.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "check.h"
#include "kernels/elementwise/program/expression.h"
#include "operations/elementwise/popops_expression.h"
#include "poplar/exceptions.hpp"
#include "popops/AllTrue.hpp"
#include "popops/Cast.hpp"
#include "popops/ElementWise.hpp"
#include "popops/Encoding.hpp"
#include "popops/Fill.hpp"
#include "popops/Reduce.hpp"
#include "testing/plan_runner.h"

namespace ipu_model {
namespace {

namespace pe = popops::expr;
using poplar::BOOL;
using poplar::FLOAT;
using poplar::HALF;
using poplar::INT;
using poplar::Tensor;

struct Fixture {
  poplar::Graph graph{poplar::Target::createIPUTarget(1, 5, "ipu2")};
  poplar::program::Sequence prog;

  Tensor Variable(poplar::Type type, const std::vector<std::size_t>& shape) {
    const Tensor t = graph.addVariable(type, shape, "t");
    poputil::mapTensorLinearly(graph, t, 1, 1);
    return t;
  }
  template <typename T>
  Tensor Values(poplar::Type type, const std::vector<std::size_t>& shape, const std::vector<T>& values) {
    const Tensor t = graph.addConstant(type, shape, static_cast<const void*>(values.data()), "values");
    poputil::mapTensorLinearly(graph, t, 1, 1);
    return t;
  }
  // Runs the whole operation and its vertices; both must agree.
  template <typename T>
  std::vector<T> Run(const Tensor& out) {
    PlanRunner whole(graph, 0), vertices(graph, 0);
    whole.RunWhole(prog);
    vertices.RunVertices(prog);
    const Bytes bytes = whole.Load(out);
    CHECK(bytes == vertices.Load(out));
    std::vector<T> values(bytes.size() / sizeof(T));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  template <typename T>
  T At(const Tensor& out, std::size_t i) {
    return Run<T>(out).at(i);
  }
};

TEST(SharedSubexpressionsAreComputedOnce) {
  const auto twice = pe::Exp(pe::_1) + pe::Const(1.0f);
  const Expression e = Flatten(twice * twice + (pe::Exp(pe::_1) + pe::Const(1.0f)), {DType::kF32});
  CHECK_EQ(e.code.size(), 4u);  // exp, add, multiply, add
  CHECK_EQ(e.constants.size(), 1u);
}

TEST(ConstantsTakeTheOtherOperandsType) {
  const Expression e = Flatten(pe::_1 * pe::Const(2.5f), {DType::kF16});
  CHECK(e.constants[0].type == DType::kF16);
  CHECK_EQ(static_cast<int>(e.constants[0].bytes[1]), 0x41);
  CHECK_THROWS(poplar::poplar_error, Flatten(pe::_1 + pe::_2, {DType::kF16, DType::kF32}));
  CHECK_THROWS(poplar::poplar_error, Flatten(pe::_3 + pe::_1, {DType::kF16, DType::kF32}));
}

TEST(MapBroadcastsLikeNumpy) {
  Fixture f;
  const Tensor a = f.Values<float>(FLOAT, {2, 3}, {1, 2, 3, 4, 5, 6}),
               b = f.Values<float>(FLOAT, {3}, {10, 20, 30});
  const Tensor c = f.Values<float>(FLOAT, {2, 1}, {100, 200});
  const Tensor out = popops::map(f.graph, pe::_1 + pe::_2 * pe::_3, {a, b, c}, f.prog, "map");
  const std::vector<float> expected = {1001, 2002, 3003, 2004, 4005, 6006};
  CHECK(f.Run<float>(out) == expected);
  CHECK_THROWS(poplar::poplar_error,
               popops::add(f.graph, a, f.Values<float>(FLOAT, {2}, {1, 2}), f.prog, "bad"));
}

TEST(NamedOperations) {
  Fixture f;
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor a = f.Values<float>(FLOAT, {4}, {-1, 0.5f, inf, nan}),
               b = f.Values<float>(FLOAT, {4}, {2, 2, 2, 2});
  const Tensor is_nan = popops::isNaN(f.graph, a, f.prog), is_inf = popops::isInf(f.graph, a, f.prog);
  const Tensor relu = popops::relu(f.graph, a, f.prog), less = popops::lt(f.graph, a, b, f.prog);
  const Tensor asin = popops::asin(f.graph, a.slice(0, 2), f.prog);
  const Tensor chosen = popops::select(f.graph, a, b, less, f.prog);
  const Tensor clamped =
      popops::clamp(f.graph, a.slice(0, 3), b.slice(0, 1).broadcast(3, 0), b.slice(1, 4), f.prog);
  CHECK(f.Run<std::uint8_t>(is_nan) == (std::vector<std::uint8_t>{0, 0, 0, 1}));
  CHECK(f.Run<std::uint8_t>(is_inf) == (std::vector<std::uint8_t>{0, 0, 1, 0}));
  CHECK(f.Run<std::uint8_t>(less) == (std::vector<std::uint8_t>{1, 1, 0, 0}));
  const auto r = f.Run<float>(relu);
  CHECK(r[0] == 0 && r[1] == 0.5f && r[2] == inf && std::isnan(r[3]));
  CHECK(f.Run<float>(chosen) == (std::vector<float>{-1, 0.5f, 2, 2}));
  CHECK(f.Run<float>(clamped) == (std::vector<float>{2, 2, 2}));
  CHECK_NEAR(static_cast<double>(f.At<float>(asin, 1)), std::asin(0.5), 1e-6);
}

TEST(InPlaceAndCast) {
  Fixture f;
  const Tensor x = f.Variable(FLOAT, {6});
  popops::iota(f.graph, x, 3, f.prog, "iota");
  popops::mulInPlace(f.graph, x, f.Values<float>(FLOAT, {1}, {-1.5f}), f.prog, "scale");
  const Tensor i = popops::cast(f.graph, x, INT, f.prog, "cast");
  const Tensor h = f.Variable(HALF, {6});
  f.prog.add(popops::cast(f.graph, x, h, "cast"));
  CHECK(f.Run<float>(x) == (std::vector<float>{-4.5f, -6, -7.5f, -9, -10.5f, -12}));
  CHECK(f.Run<std::int32_t>(i) == (std::vector<std::int32_t>{-4, -6, -7, -9, -10, -12}));
  CHECK_EQ(f.At<std::uint16_t>(h, 0), 0xc480);
}

TEST(FillConverts) {
  Fixture f;
  const Tensor h = f.Variable(HALF, {3}), b = f.Variable(BOOL, {3}), i = f.Variable(INT, {3});
  popops::fill(f.graph, h, f.prog, 1.5f);
  popops::fill(f.graph, b, f.prog, true);
  popops::fill(f.graph, i, f.prog, -7);
  CHECK_EQ(f.At<std::uint16_t>(h, 2), 0x3e00);
  CHECK_EQ(static_cast<int>(f.At<std::uint8_t>(b, 2)), 1);
  CHECK_EQ(f.At<std::int32_t>(i, 2), -7);
}

TEST(ReduceOperations) {
  Fixture f;
  using popops::Operation;
  const Tensor a = f.Values<float>(FLOAT, {2, 3}, {1, -2, 3, 4, 5, -6});
  const Tensor sum = popops::reduce(f.graph, a, {1}, {Operation::ADD}, f.prog);
  const Tensor product = popops::reduce(f.graph, a, {0}, {Operation::MUL}, f.prog);
  const Tensor smallest = popops::reduce(f.graph, a, {0, 1}, {Operation::MIN}, f.prog);
  const Tensor squares = popops::reduce(f.graph, a, {0, 1}, {Operation::SQUARE_ADD}, f.prog);
  const Tensor log_sum = popops::reduce(f.graph, a, {0, 1}, {Operation::LOG_ADD}, f.prog);
  const Tensor none = popops::reduce(f.graph, a.slice(0, 0, 1), {1}, {Operation::MAX}, f.prog);
  CHECK(f.Run<float>(sum) == (std::vector<float>{2, 3}));
  CHECK(f.Run<float>(product) == (std::vector<float>{4, -10, -18}));
  CHECK(f.Run<float>(smallest) == (std::vector<float>{-6}));
  CHECK(f.Run<float>(squares) == (std::vector<float>{91}));
  CHECK_EQ(f.At<float>(none, 0), -std::numeric_limits<float>::infinity());
  double expected = 0;
  for (const double v : {1, -2, 3, 4, 5, -6}) expected += std::exp(v);
  CHECK_NEAR(static_cast<double>(f.At<float>(log_sum, 0)), std::log(expected), 1e-5);
  CHECK_THROWS(poplar::poplar_error, popops::reduce(f.graph, a, {1}, {Operation::LOGICAL_AND}, f.prog));
}

// 2048 and 1 is no half: their sum is not rounded to one, and neither is the product.
TEST(HalfReducesToFloat) {
  Fixture f;
  const Tensor a = f.Values<std::uint16_t>(HALF, {2}, {0x6800, 0x3c00}),
               b = f.Values<std::uint16_t>(HALF, {2}, {0x7800, 0x4400});
  const Tensor sum = popops::reduce(f.graph, a, FLOAT, {0}, {popops::Operation::ADD}, f.prog);
  const Tensor product = popops::reduce(f.graph, b, FLOAT, {0}, {popops::Operation::MUL}, f.prog);
  const Tensor largest = popops::reduce(f.graph, a, FLOAT, {0}, {popops::Operation::MAX}, f.prog);
  CHECK(f.Run<float>(sum) == (std::vector<float>{2049}));
  CHECK(f.Run<float>(product) == (std::vector<float>{131072}));
  CHECK(f.Run<float>(largest) == (std::vector<float>{2048}));
}

TEST(ReduceWithOutputUpdates) {
  Fixture f;
  const Tensor a = f.Values<float>(FLOAT, {2, 3}, {1, 2, 3, 4, 5, 6});
  const Tensor out = f.Variable(FLOAT, {3});
  popops::fill(f.graph, out, f.prog, 100);
  popops::reduceWithOutput(f.graph, a, out, {0}, {popops::Operation::ADD, true}, f.prog);
  CHECK(f.Run<float>(out) == (std::vector<float>{105, 107, 109}));
}

TEST(AllTrue) {
  Fixture f;
  const Tensor yes = f.Values<std::uint8_t>(BOOL, {2, 2}, {1, 1, 1, 1}),
               no = f.Values<std::uint8_t>(BOOL, {3}, {1, 0, 1});
  const Tensor a = popops::allTrue(f.graph, yes, f.prog), b = popops::allTrue(f.graph, no, f.prog);
  CHECK_EQ(static_cast<int>(f.At<std::uint8_t>(a, 0)), 1);
  CHECK_EQ(static_cast<int>(f.At<std::uint8_t>(b, 0)), 0);
  CHECK_THROWS(poplar::poplar_error, popops::allTrue(f.graph, f.Variable(INT, {2}), f.prog));
}

}  // namespace
}  // namespace ipu_model
