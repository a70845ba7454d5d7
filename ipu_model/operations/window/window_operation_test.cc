// Tests window operations on the device: the vertices, with halos, give the result of the whole operation.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "check.h"
#include "core/graph/graph_impl.h"
#include "core/operation/serialise.h"
#include "hlo/Window.hpp"
#include "kernels/elementwise/program/expression.h"
#include "kernels/vector/convert.h"
#include "operations/window/window_plan.h"
#include "poplar/exceptions.hpp"
#include "testing/plan_runner.h"

namespace ipu_model {
namespace {

using jax_ipu::testing::Everything;
using poplar::Graph;
using poplar::Target;
using poplar::Tensor;
using Sizes = std::vector<std::size_t>;

Expression Binary(ScalarOp op, DType type, DType result) {
  Expression e;
  e.inputs = {type, type};
  e.code = {{op, type, result, {0, 1, 0}, 0}};
  e.outputs = {2};
  return e;
}

// (value, index) of the largest value.
Expression LargestWithIndex() {
  Expression e;
  e.inputs = {DType::kF32, DType::kS32, DType::kF32, DType::kS32};
  e.code = {{ScalarOp::kGe, DType::kF32, DType::kPred, {0, 2, 0}, 0},
            {ScalarOp::kSelect, DType::kF32, DType::kF32, {4, 0, 2}, 0},
            {ScalarOp::kSelect, DType::kS32, DType::kS32, {4, 1, 3}, 0}};
  e.outputs = {5, 6};
  return e;
}

struct Case {
  Sizes operand;
  hlo::WindowParameters params;
};

Case RandomCase(std::mt19937& random, std::size_t rank, bool dilated) {
  const auto up_to = [&](unsigned n) { return static_cast<std::int64_t>(random() % n); };
  for (;;) {
    Case c;
    c.params.geometry.rank = static_cast<int>(rank);
    for (std::size_t d = 0; d < rank; ++d) {
      WindowDimension& w = c.params.geometry.dim[d];
      c.operand.push_back(static_cast<std::size_t>(1 + up_to(14)));
      c.params.paddingHigh.push_back(0);
      if (up_to(3) == 0) continue;
      w.size = 1 + up_to(4);
      w.stride = 1 + up_to(3);
      if (dilated && up_to(3) == 0) w.base_dilation = 1 + up_to(3);
      if (dilated && up_to(3) == 0) w.window_dilation = 1 + up_to(3);
      if (up_to(2) == 0) {
        w.padding_low = up_to(5) - 1;
        c.params.paddingHigh.back() = up_to(5) - 1;
      }
    }
    std::size_t elements = 1;
    for (std::size_t n : hlo::windowOutputShape(c.operand, c.params)) elements *= n;
    if (elements > 0) return c;
  }
}

class Runners {
 public:
  Runners(Graph& graph, const poplar::program::Sequence& prog)
      : whole_(graph, 0), vertices_(graph, 0), prog_(prog) {}

  template <typename T>
  void Store(std::mt19937& random, const Tensor& t) {
    std::vector<T> values(t.numElements());
    for (T& v : values) v = static_cast<T>(static_cast<int>(random() % 9) - 4);
    Store(t, values.data());
  }
  void Store(const Tensor& t, const void* values) {
    whole_.Store(t, values);
    vertices_.Store(t, values);
  }
  void Run() {
    whole_.RunWhole(prog_);
    vertices_.RunVertices(prog_);
    CHECK(vertices_.cycles() > 0);
  }
  void Compare(const Tensor& t, const std::string& what) {
    if (whole_.Load(t) != vertices_.Load(t)) jax_ipu::testing::Fail(__FILE__, __LINE__, what);
  }
  Bytes Load(const Tensor& t) { return whole_.Load(t); }
  Bytes LoadVertices(const Tensor& t) { return vertices_.Load(t); }
  std::size_t supersteps() const { return vertices_.supersteps(); }
  const DeviceContext& device() const { return vertices_; }

 private:
  PlanRunner whole_, vertices_;
  const poplar::program::Sequence& prog_;
};

unsigned Tiles(int i) { return i % 3 == 0 ? 2 : i % 3 == 1 ? 50 : 1472; }

// A scalar variable on tile 1.
Tensor Init(Graph& graph, poplar::Type type) {
  const Tensor t = graph.addVariable(type, {}, "init");
  graph.setTileMapping(t, 1);
  return t;
}

Tensor Operand(Graph& graph, std::mt19937& random, poplar::Type type, const Sizes& shape) {
  std::vector<unsigned> order(shape.size()), inverse(shape.size());
  for (unsigned d = 0; d < order.size(); ++d) order[d] = d;
  if (random() % 2 == 0) std::shuffle(order.begin(), order.end(), random);
  Sizes memory;
  for (unsigned i = 0; i < order.size(); ++i) {
    memory.push_back(shape[order[i]]);
    inverse[order[i]] = i;
  }
  const Tensor t = graph.addVariable(type, memory, "operand");
  poputil::mapTensorLinearly(graph, t);
  return t.dimShuffle(inverse);
}

TEST(ReduceWindow) {
  std::mt19937 random(1);
  for (int i = 0; i < (Everything() ? 90 : 48); ++i) {
    const Case c = RandomCase(random, static_cast<std::size_t>(1 + i % 4), true);
    Graph graph(Target::createIPUTarget(1, Tiles(i), "ipu2"));
    poplar::program::Sequence prog;
    const Tensor x = Operand(graph, random, poplar::FLOAT, c.operand), init = Init(graph, poplar::FLOAT);
    const ScalarOp op = i % 2 == 0 ? ScalarOp::kAdd : ScalarOp::kMaximum;
    const auto y =
        hlo::reduceWindow(graph, {x}, {init}, c.params, Binary(op, DType::kF32, DType::kF32), prog, "pool");
    CHECK(y[0].shape() == hlo::windowOutputShape(c.operand, c.params));
    const Tensor index = Operand(graph, random, poplar::INT, c.operand), none = Init(graph, poplar::INT);
    const auto both =
        hlo::reduceWindow(graph, {x, index}, {init, none}, c.params, LargestWithIndex(), prog, "argmax");
    Runners runners(graph, prog);
    runners.Store<float>(random, x);
    runners.Store<float>(random, init);
    runners.Store<std::int32_t>(random, index);
    runners.Store<std::int32_t>(random, none);
    runners.Run();
    runners.Compare(y[0], "reduceWindow " + std::to_string(i));
    runners.Compare(both[0], "largest value " + std::to_string(i));
    runners.Compare(both[1], "its index " + std::to_string(i));
  }
}

// Of a short line, which stays whole, and of a longer one, which is cut.
void CheckCumulativeSum(std::mt19937& random, int length, bool backwards, std::size_t supersteps) {
  Graph graph(Target::createIPUTarget(1, 64, "ipu2"));
  poplar::program::Sequence prog;
  const auto rows = static_cast<std::size_t>(length);
  const Tensor x = Operand(graph, random, poplar::INT, {rows, 6}), init = Init(graph, poplar::INT);
  hlo::WindowParameters params;
  params.geometry.rank = 2;
  params.geometry.dim[0].size = length;
  params.geometry.dim[0].padding_low = backwards ? 0 : length - 1;
  params.paddingHigh = {backwards ? length - 1 : 0, 0};
  const auto y = hlo::reduceWindow(graph, {x}, {init}, params,
                                   Binary(ScalarOp::kAdd, DType::kS32, DType::kS32), prog, "cumsum");
  Runners runners(graph, prog);
  const std::int32_t zero = 0;
  std::vector<std::int32_t> ones(6 * rows, 1);
  runners.Store(x, ones.data());
  runners.Store(init, &zero);
  runners.Run();
  CHECK_EQ(runners.supersteps(), supersteps);
  runners.Compare(y[0], "cumulative sum");
  const Bytes bytes = runners.Load(y[0]);
  std::vector<std::int32_t> sums(6 * rows);
  std::memcpy(sums.data(), bytes.data(), bytes.size());
  for (int i = 0; i < length; ++i)
    CHECK_EQ(sums[static_cast<std::size_t>(i) * 6], backwards ? length - i : i + 1);
}

TEST(CumulativeSum) {
  std::mt19937 random(2);
  for (const bool backwards : {false, true}) {
    CheckCumulativeSum(random, 12, backwards, 1);
    CheckCumulativeSum(random, 40, backwards, 3);
  }
}

hlo::WindowParameters Cumulative(const Sizes& shape, std::size_t dimension, bool backwards) {
  hlo::WindowParameters params;
  params.geometry.rank = static_cast<int>(shape.size());
  params.paddingHigh.assign(shape.size(), 0);
  const auto length = static_cast<std::int64_t>(shape[dimension]);
  params.geometry.dim[dimension].size = length;
  (backwards ? params.paddingHigh[dimension] : params.geometry.dim[dimension].padding_low) = length - 1;
  return params;
}

// Returns the largest number of bytes that a vertex of the operation reads and writes.
std::int64_t LargestVertex(const Operation& operation, const DeviceContext& device) {
  const TilePlan plan = operation.Plan(device);
  const auto type_of = [&](const OperandRef& ref) {
    return ref.kind == OperandRef::Kind::kTemporary ? plan.temporaries[ref.index].type
           : ref.kind == OperandRef::Kind::kInput   ? operation.inputs[ref.index].type
                                                    : operation.outputs[ref.index].type;
  };
  std::int64_t largest = 0;
  for (const Superstep& step : plan.supersteps) {
    for (const VertexGroup& group : step.groups) {
      for (const Vertex& vertex : group.vertices) {
        std::int64_t bytes = 0;
        for (const auto* accesses : {&group.reads, &group.writes}) {
          for (const auto& access : *accesses) {
            bytes += access.region(vertex.box).num_elements() *
                     static_cast<std::int64_t>(SizeOf(type_of(access.tensor)));
          }
        }
        largest = std::max(largest, bytes);
      }
    }
  }
  return largest;
}

// Runs a cumulative operation over a long line, whole and by its vertices. `values` may differ by `tolerance`
// times the largest result.
template <typename T>
void CheckCumulative(std::mt19937& random, poplar::Type type, ScalarOp op, const Sizes& shape,
                     std::size_t dimension, bool backwards, unsigned tiles, const std::vector<T>& values,
                     T first, double tolerance) {
  Graph graph(Target::createIPUTarget(1, tiles, "ipu2"));
  poplar::program::Sequence prog;
  const Tensor x = Operand(graph, random, type, shape), init = Init(graph, type);
  const auto y = hlo::reduceWindow(graph, {x}, {init}, Cumulative(shape, dimension, backwards),
                                   Binary(op, type.id(), type.id()), prog, "cumulative");
  Runners runners(graph, prog);
  runners.Store(x, values.data());
  runners.Store(init, &first);
  runners.Run();
  const std::string what = "cumulative operation " + std::to_string(static_cast<int>(op)) + " of " +
                           x.shapeToString() + (backwards ? " backwards on " : " on ") +
                           std::to_string(tiles) + " tiles";
  CHECK_EQ(runners.supersteps(), std::size_t{3});
  const Operation& operation = *prog.node()->children.back()->operation;
  CHECK(LargestVertex(operation, runners.device()) <=
        static_cast<std::int64_t>(runners.device().target().bytes_per_tile));
  if (tolerance == 0) return runners.Compare(y[0], what);
  const Bytes whole = runners.Load(y[0]), vertices = runners.LoadVertices(y[0]);
  std::vector<T> expected(values.size()), actual(values.size());
  std::memcpy(expected.data(), whole.data(), whole.size());
  std::memcpy(actual.data(), vertices.data(), vertices.size());
  double scale = 0;
  for (const T v : expected) scale = std::max(scale, std::abs(static_cast<double>(v)));
  CHECK(std::isfinite(scale) && scale > 0);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (!(std::abs(static_cast<double>(expected[i]) - static_cast<double>(actual[i])) <= tolerance * scale)) {
      jax_ipu::testing::Fail(__FILE__, __LINE__, what + ", element " + std::to_string(i));
    }
  }
}

struct LongLines {
  Sizes shape;
  std::size_t dimension;
};
const LongLines kLongLines[] = {{{9001}, 0}, {{3, 5000}, 1}, {{4500, 5}, 0}, {{2, 4097, 3}, 1}};

// Lines that are cut into chunks: scans of chunks, of their totals, and the combination of both.
TEST(LongCumulativeLines) {
  std::mt19937 random(6);
  for (const LongLines& lines : kLongLines) {
    std::size_t n = 1;
    for (const std::size_t extent : lines.shape) n *= extent;
    std::vector<std::int32_t> integers(n);
    std::vector<float> numbers(n), factors(n);
    std::vector<unsigned char> truths(n);
    for (std::size_t i = 0; i < n; ++i) {
      integers[i] = static_cast<std::int32_t>(random());
      numbers[i] = std::uniform_real_distribution<float>(-1, 1)(random);
      factors[i] = std::uniform_real_distribution<float>(0.98f, 1.02f)(random);
      truths[i] = random() % 1000 != 0;
    }
    for (const bool backwards : {false, true}) {
      for (const unsigned tiles : {16u, 1472u}) {
        // For every change each line has two of the four combinations, and two lines have the others.
        const bool other = (&lines - kLongLines) % 2 != 0;
        if ((backwards == (tiles == 16)) == other && !Everything()) continue;
        const auto check = [&](poplar::Type type, ScalarOp op, const auto& values, auto first,
                               double tolerance) {
          CheckCumulative(random, type, op, lines.shape, lines.dimension, backwards, tiles, values, first,
                          tolerance);
        };
        // Inits that are not identities show whether they are combined exactly once.
        for (const ScalarOp op : {ScalarOp::kAdd, ScalarOp::kMultiply, ScalarOp::kMaximum, ScalarOp::kMinimum,
                                  ScalarOp::kAnd, ScalarOp::kOr}) {
          check(poplar::INT, op, integers, std::int32_t{5}, 0);
        }
        check(poplar::FLOAT, ScalarOp::kAdd, numbers, 3.0f, 1e-5);
        check(poplar::FLOAT, ScalarOp::kMultiply, factors, 3.0f, 1e-3);
        check(poplar::FLOAT, ScalarOp::kMaximum, numbers, 0.25f, 0);
        check(poplar::FLOAT, ScalarOp::kMinimum, numbers, -0.25f, 0);
        check(poplar::BOOL, ScalarOp::kAnd, truths, static_cast<unsigned char>(1), 0);
        check(poplar::BOOL, ScalarOp::kOr, truths, static_cast<unsigned char>(0), 0);
      }
    }
  }
}

TEST(CumulativeLinesWithNanAndNegativeZero) {
  std::mt19937 random(7);
  std::vector<float> values(6000);
  for (float& v : values) v = -0.0f;
  for (const bool backwards : {false, true}) {
    CheckCumulative(random, poplar::FLOAT, ScalarOp::kAdd, {6000}, 0, backwards, 50, values, 0.0f, 0);
  }
  values[3000] = std::numeric_limits<float>::quiet_NaN();
  for (const bool backwards : {false, true}) {
    for (const ScalarOp op : {ScalarOp::kMaximum, ScalarOp::kMinimum}) {
      CheckCumulative(random, poplar::FLOAT, op, {6000}, 0, backwards, 50, values, -1.0f, 0);
    }
  }
}

// Halves accumulate in single precision: long sums do not stop growing, and the cuts only change the
// rounding.
TEST(CumulativeLinesOfHalves) {
  std::mt19937 random(9);
  const Sizes shape = {5000};
  std::vector<std::uint16_t> values(5000);
  // values from 0.5 to 2
  for (std::uint16_t& v : values) v = static_cast<std::uint16_t>(0x3800 + random() % 0x800);
  const std::uint16_t zero = 0;
  for (const bool backwards : {false, true}) {
    for (const bool add : {true, false}) {
      Graph graph(Target::createIPUTarget(1, 50, "ipu2"));
      poplar::program::Sequence prog;
      const Tensor x = Operand(graph, random, poplar::HALF, shape), init = Init(graph, poplar::HALF);
      const ScalarOp op = add ? ScalarOp::kAdd : ScalarOp::kMaximum;
      const auto y = hlo::reduceWindow(graph, {x}, {init}, Cumulative(shape, 0, backwards),
                                       Binary(op, DType::kF16, DType::kF16), prog, "cumulative");
      Runners runners(graph, prog);
      runners.Store(x, values.data());
      runners.Store(init, &zero);
      runners.Run();
      CHECK_EQ(runners.supersteps(), std::size_t{3});
      if (!add) {
        runners.Compare(y[0], "largest half");
        continue;
      }
      for (const Bytes& bytes : {runners.Load(y[0]), runners.LoadVertices(y[0])}) {
        double sum = 0;
        for (std::size_t i = 0; i < values.size(); ++i) {
          const std::size_t at = backwards ? values.size() - 1 - i : i;
          sum += static_cast<double>(F16ToF32(values[at]));
          std::uint16_t code;
          std::memcpy(&code, bytes.data() + at * sizeof(code), sizeof(code));
          CHECK_NEAR(static_cast<double>(F16ToF32(code)), sum, sum * 2e-3);
        }
      }
    }
  }
}

// The line alone is larger than the memory of a tile.
TEST(CumulativeLineLongerThanATile) {
  std::mt19937 random(8);
  std::vector<std::int32_t> integers(1000000);
  std::vector<float> numbers(integers.size());
  for (std::int32_t& v : integers) v = static_cast<std::int32_t>(random());
  for (float& v : numbers) v = std::uniform_real_distribution<float>(-1, 1)(random);
  for (const bool backwards : {false, true}) {
    for (const unsigned tiles : {40u, 1472u}) {
      CheckCumulative(random, poplar::INT, ScalarOp::kAdd, {1000000}, 0, backwards, tiles, integers, 7, 0);
      CheckCumulative(random, poplar::FLOAT, ScalarOp::kAdd, {1000000}, 0, backwards, tiles, numbers, 0.5f,
                      1e-4);
    }
  }
}

TEST(SelectAndScatter) {
  std::mt19937 random(3);
  for (int i = 0; i < (Everything() ? 120 : 60); ++i) {
    const Case c = RandomCase(random, static_cast<std::size_t>(1 + i % 4), false);
    Graph graph(Target::createIPUTarget(1, Tiles(i), "ipu2"));
    poplar::program::Sequence prog;
    const Tensor x = Operand(graph, random, poplar::FLOAT, c.operand);
    const Tensor dy = Operand(graph, random, poplar::FLOAT, hlo::windowOutputShape(c.operand, c.params));
    const Tensor init = Init(graph, poplar::FLOAT);
    const Tensor dx =
        hlo::selectAndScatter(graph, x, dy, init, c.params, Binary(ScalarOp::kGe, DType::kF32, DType::kPred),
                              Binary(ScalarOp::kAdd, DType::kF32, DType::kF32), prog, "gradient");
    Runners runners(graph, prog);
    runners.Store<float>(random, x);
    runners.Store<float>(random, dy);
    runners.Store<float>(random, init);
    runners.Run();
    runners.Compare(dx, "selectAndScatter " + std::to_string(i));
  }
}

// An image that does not fit on a tile is cut, with halos.
TEST(LargeImagesAreCut) {
  hlo::WindowParameters params;
  params.geometry.rank = 4;
  for (int d = 1; d < 3; ++d) params.geometry.dim[d].size = params.geometry.dim[d].stride = 2;
  params.paddingHigh = {0, 0, 0, 0};
  Graph graph(Target::createIPUTarget(1, 1472, "ipu2"));
  poplar::program::Sequence prog;
  std::mt19937 random(4);
  const Tensor x = graph.addVariable(poplar::FLOAT, {1, 512, 512, 2}, "x");
  poputil::mapTensorLinearly(graph, x);
  const auto y = hlo::reduceWindow(graph, {x}, {Init(graph, poplar::FLOAT)}, params,
                                   Binary(ScalarOp::kMaximum, DType::kF32, DType::kF32), prog, "pool");
  std::size_t tiles = 0;
  for (const auto& intervals : graph.getTileMapping(y[0])) tiles += !intervals.empty();
  CHECK(tiles > 700);
}

TEST(Serialisation) {
  std::mt19937 random(5);
  const Case c = RandomCase(random, 3, false);
  Graph graph(Target::createIPUTarget(1, 8, "ipu2"));
  poplar::program::Sequence prog;
  const Tensor x = Operand(graph, random, poplar::FLOAT, c.operand), init = Init(graph, poplar::FLOAT);
  const Expression add = Binary(ScalarOp::kAdd, DType::kF32, DType::kF32);
  const auto y = hlo::reduceWindow(graph, {x}, {init}, c.params, add, prog);
  hlo::selectAndScatter(graph, x, y[0], init, c.params, Binary(ScalarOp::kGe, DType::kF32, DType::kPred), add,
                        prog);
  std::size_t seen = 0;
  for (const auto& child : prog.node()->children) {
    const Operation& operation = *child->operation;
    Writer writer, again;
    operation.Write(writer);
    Reader reader(writer.data());
    OperationRegistry().at(std::string(operation.kind()))(reader)->Write(again);
    CHECK_EQ(reader.remaining(), std::size_t{0});
    CHECK(again.data() == writer.data());
    ++seen;
  }
  CHECK_EQ(seen, std::size_t{2});
}

TEST(Refusals) {
  Graph graph(Target::createIPUTarget(1, 4, "ipu2"));
  poplar::program::Sequence prog;
  const Tensor x = graph.addVariable(poplar::FLOAT, {4, 4}, "x"),
               half = graph.addVariable(poplar::HALF, {4, 4}, "h");
  const Tensor init = Init(graph, poplar::FLOAT);
  const Expression add = Binary(ScalarOp::kAdd, DType::kF32, DType::kF32);
  hlo::WindowParameters params;
  params.geometry.rank = 2;
  params.paddingHigh = {0, 0};
  CHECK_THROWS(poplar::poplar_error, hlo::reduceWindow(graph, {x, x}, {init}, params, add, prog));
  CHECK_THROWS(poplar::poplar_error, hlo::reduceWindow(graph, {half}, {init}, params, add, prog));
  CHECK_THROWS(poplar::poplar_error, hlo::selectAndScatter(graph, x, x, init, params, add, add, prog));
  params.geometry.dim[0].size = 0;
  CHECK_THROWS(poplar::poplar_error, hlo::reduceWindow(graph, {x}, {init}, params, add, prog));
}

}  // namespace
}  // namespace ipu_model
