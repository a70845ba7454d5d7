// Windows: kernel and expansion have the same vertices and values.
#include "hlo/Window.hpp"

#include "testing/codelet_cache.h"
#include "testing/expansion_check.h"
#include "testing/numbers.h"
#include "testing/test_instructions.h"

namespace hlo::testing {
namespace {

using jax_ipu::testing::Everything;
using poplar::Graph;
using poplar::Tensor;
using poplar::program::Sequence;

const toy::SharedCodeletCache cache;

constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kS8, DType::kS64};

// Size, stride, base dilation, window dilation, low padding of each dimension.
WindowParameters Window(const std::vector<WindowDimension>& dims, std::vector<std::int64_t> high) {
  WindowParameters params;
  params.geometry.rank = static_cast<int>(dims.size());
  std::copy(dims.begin(), dims.end(), params.geometry.dim);
  params.paddingHigh = std::move(high);
  return params;
}

struct Row {
  std::vector<std::size_t> shape;
  WindowParameters window;
};
const Row kPools[] = {
    {{2, 8, 9}, Window({{1}, {3}, {2}}, {0, 0, 0})},
    {{2, 8, 9}, Window({{1}, {3, 2, 1, 1, 1}, {2, 1, 1, 1, 0}}, {0, 1, 1})},  // padding
    {{6, 9}, Window({{3, 1, 2, 1, 1}, {2, 1, 1, 3, 0}}, {1, 2})},             // dilations
    {{40, 9}, Window({{3, 2, 1, 1, -2}, {2, 1, 1, 1, 0}}, {-1, 0})},          // negative padding
    {{70}, Window({{4, 3}}, {0})},
};
const Row kLines[] = {
    {{12, 7}, Window({{12, 1, 1, 1, 11}, {1}}, {0, 0})}, {{12, 7}, Window({{12}, {1}}, {11, 0})},
    {{5, 30}, Window({{1}, {30, 1, 1, 1, 29}}, {0, 0})}, {{5, 30}, Window({{1}, {30}}, {0, 29})},
    {{5, 30, 8}, Window({{1}, {30}, {1}}, {0, 29, 0})},
};

// Returns the number of supersteps.
std::size_t CheckReduceWindow(const Row& row, const Expression& combiner, int largest, unsigned tiles = 7) {
  Graph graph(poplar::Target::createIPUTarget(1, tiles, "ipu2"));
  const poplar::Type type(combiner.inputs[0]);
  const Tensor t = Linear(graph, combiner.inputs[0], row.shape), init = Linear(graph, combiner.inputs[0], {});
  Sequence prog;
  const std::vector<Tensor> out = hlo::reduceWindow(graph, {t}, {init}, row.window, combiner, prog, "window");
  ExpansionCheck check(graph, prog, {t, init}, out);
  check.SameVertices();
  check.SameValues({SmallNumbers(t, 1, largest), SmallNumbers(init, 2, largest)}, SameBits);
  return check.Supersteps();
}

TEST(Pools) {
  for (const Row& row : kPools) {
    for (const ScalarOp op : {ScalarOp::kAdd, ScalarOp::kMultiply, ScalarOp::kMaximum, ScalarOp::kMinimum})
      CheckReduceWindow(row, BinaryBody(op, DType::kF32), op == ScalarOp::kMultiply ? 1 : 9);
  }
  for (const DType type : kTypes) CheckReduceWindow(kPools[1], BinaryBody(ScalarOp::kAdd, type), 9);
}

TEST(CumulativeOperations) {
  for (const Row& row : kLines) {
    for (const ScalarOp op : {ScalarOp::kAdd, ScalarOp::kMultiply, ScalarOp::kMaximum, ScalarOp::kMinimum})
      CheckReduceWindow(row, BinaryBody(op, DType::kF32), op == ScalarOp::kMultiply ? 1 : 9);
    for (const DType type : kTypes) CheckReduceWindow(row, BinaryBody(ScalarOp::kAdd, type), 4);
  }
}

// Several operands, with a body of several operations.
TEST(GeneralBody) {
  constexpr DType f = DType::kF32, s = DType::kS32;
  Expression e;
  e.inputs = {f, s, f, s};
  e.code = {Op(ScalarOp::kGe, f, DType::kPred, 0, 2), Op(ScalarOp::kSelect, f, f, 4, 0, 2),
            Op(ScalarOp::kSelect, s, s, 4, 1, 3)};
  e.outputs = {5, 6};
  for (const Row& row : {kPools[1], kLines[0], kLines[1]}) {
    Graph graph(poplar::Target::createIPUTarget(1, 7, "ipu2"));
    const std::vector<Tensor> in = {Linear(graph, f, row.shape), Linear(graph, s, row.shape),
                                    Linear(graph, f, {}), Linear(graph, s, {})};
    Sequence prog;
    const std::vector<Tensor> out =
        hlo::reduceWindow(graph, {in[0], in[1]}, {in[2], in[3]}, row.window, e, prog, "window");
    ExpansionCheck check(graph, prog, in, out);
    check.SameVertices();
    std::vector<Bytes> values;
    for (unsigned i = 0; i < 4; ++i) values.push_back(SmallNumbers(in[i], i, 50));
    check.SameValues(values, SameBits);
  }
}

TEST(SelectAndScatter) {
  const Row rows[] = {
      {{7, 6}, Window({{3, 2}, {2, 2}}, {0, 0})},
      {{2, 9, 6}, Window({{1}, {3, 2, 1, 1, 1}, {2, 1, 1, 1, 0}}, {0, 1, 0})},  // windows that overlap
      {{90}, Window({{3, 5}}, {0})},                                            // elements in no window
  };
  for (const Row& row : rows) {
    for (const DType type : {DType::kF32, DType::kF16, DType::kS32}) {
      for (const ScalarOp op : {ScalarOp::kGe, ScalarOp::kLt}) {
        if (op == ScalarOp::kLt && type != DType::kF32) continue;
        Graph graph(poplar::Target::createIPUTarget(1, 7, "ipu2"));
        const Tensor t = Linear(graph, type, row.shape), init = Linear(graph, type, {}),
                     source = Linear(graph, type, windowOutputShape(row.shape, row.window));
        Sequence prog;
        const Tensor out =
            hlo::selectAndScatter(graph, t, source, init, row.window, BinaryBody(op, type, DType::kPred),
                                  BinaryBody(ScalarOp::kAdd, type), prog, "select");
        ExpansionCheck check(graph, prog, {t, source, init}, {out});
        check.SameVertices();
        check.SameValues({SmallNumbers(t, 1, 9), SmallNumbers(source, 2, 9), SmallNumbers(init, 3, 1)},
                         SameBits);
      }
    }
  }
}

// Long lines are cut into chunks. Not all chunks have one length.
TEST(RunningResultsOverSeveralTiles) {
  const Row rows[] = {{{5001}, Window({{5001, 1, 1, 1, 5000}}, {0})},
                      {{5001}, Window({{5001}}, {5000})},
                      {{2, 4500, 3}, Window({{1}, {4500, 1, 1, 1, 4499}, {1}}, {0, 0, 0})},
                      {{2, 4500, 3}, Window({{1}, {4500}, {1}}, {0, 4499, 0})}};
  for (const Row& row : rows) {
    CHECK_EQ(CheckReduceWindow(row, BinaryBody(ScalarOp::kAdd, DType::kF32), 9, 64), 3u);
    // One row of each direction and of each number of dimensions.
    if (&row != &rows[0] && &row != &rows[3] && !Everything()) continue;
    for (const DType type : {DType::kS8, DType::kS32, DType::kF16, DType::kBF16})
      CHECK_EQ(CheckReduceWindow(row, BinaryBody(ScalarOp::kMaximum, type), 9, 64), 3u);
    CheckReduceWindow(row, BinaryBody(ScalarOp::kMultiply, DType::kF32), 1, 64);
  }
}

// The last element that is not 0, or the first: the order of the operands matters.
TEST(RunningResultsOfABodyThatDoesNotCommute) {
  for (const bool backwards : {false, true}) {
    for (const std::uint16_t kept : {0, 1}) {
      Expression body;
      body.inputs = {DType::kS32, DType::kS32};
      body.constants.emplace_back().type = DType::kS32;
      body.code = {
          Op(ScalarOp::kNe, DType::kS32, DType::kPred, kept, 2),
          Op(ScalarOp::kSelect, DType::kS32, DType::kS32, 3, kept, static_cast<std::uint16_t>(1 - kept))};
      body.outputs = {4};
      Graph graph(poplar::Target::createIPUTarget(1, 64, "ipu2"));
      const Tensor t = Linear(graph, DType::kS32, {5001}), init = Linear(graph, DType::kS32, {});
      Sequence prog;
      const WindowParameters window =
          backwards ? Window({{5001}}, {5000}) : Window({{5001, 1, 1, 1, 5000}}, {0});
      const std::vector<Tensor> out = hlo::reduceWindow(graph, {t}, {init}, window, body, prog, "window");
      ExpansionCheck check(graph, prog, {t, init}, out);
      Bytes values;
      for (std::int32_t i = 0; i < 5001; ++i) {
        const Bytes element = BytesOf(i % 7 == 3 ? i : 0);
        values.insert(values.end(), element.begin(), element.end());
      }
      CHECK_EQ(check.Supersteps(), 3u);
      check.SameValues({values, BytesOf(std::int32_t{0})}, SameBits);
    }
  }
}

TEST(ComplexNumbers) {
  for (const Row& row : {kPools[0], kLines[1], kLines[2]}) {
    Graph graph(poplar::Target::createIPUTarget(1, 7, "ipu2"));
    const Tensor t = Linear(graph, DType::kC64, row.shape), init = Linear(graph, DType::kC64, {});
    Sequence prog;
    const std::vector<Tensor> out = hlo::reduceWindow(
        graph, {t}, {init}, row.window, BinaryBody(ScalarOp::kAdd, DType::kC64), prog, "window");
    ExpansionCheck check(graph, prog, {t, init}, out);
    check.SameVertices();
    check.SameValues({Parts(t, 1), Parts(init, 2)}, Close);
  }
}

TEST(WhatIsNotExpandedIsRefused) {
  for (const DType type : {DType::kF8E5M2, DType::kC128}) {
    Graph graph(poplar::Target::createIPUTarget(1, 7, "ipu2"));
    const Tensor t = Linear(graph, type, kPools[0].shape), init = Linear(graph, type, {});
    Sequence prog;
    hlo::reduceWindow(graph, {t}, {init}, kPools[0].window, BinaryBody(ScalarOp::kAdd, type), prog,
                      "the window");
    CHECK(Refusal(graph, prog).find(NameOf(type)) != std::string::npos);
  }
}

}  // namespace
}  // namespace hlo::testing
