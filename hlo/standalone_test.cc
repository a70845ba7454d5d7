// The functions without a planner give the values of the model's kernels.
#include "hlo/Standalone.hpp"

#include "storage.h"
#include "testing/codelet_cache.h"
#include "testing/expansion_check.h"
#include "testing/window_dims.h"

namespace hlo::testing {
namespace {

using poplar::Graph;
using poplar::Tensor;
using poplar::program::Sequence;

const toy::SharedCodeletCache cache;

Expression Binary(ScalarOp op, DType type, DType result) {
  Expression e;
  e.inputs = {type, type};
  Instruction i;
  i.op = op;
  i.operand_type = type;
  i.result_type = result;
  i.operand[0] = 0;
  i.operand[1] = 1;
  e.code = {i};
  e.outputs = {2};
  return e;
}

// Small numbers in a variable; integers without a sign are below 40.
Tensor Filled(Graph& graph, Sequence& prog, const poplar::Type& type, const std::vector<std::size_t>& shape,
              unsigned seed) {
  const Tensor t = Linear(graph, DTypeOf(type), shape);
  std::vector<float> numbers;
  std::mt19937 random(seed);
  for (std::size_t i = 0; i < t.numElements(); ++i)
    numbers.push_back(static_cast<float>(random() % 80) - (type == poplar::UNSIGNED_INT ? 0.0f : 40.0f));
  const Tensor c = graph.addConstant(type, shape, numbers, "numbers");
  graph.setTileMapping(c, 0);
  prog.add(poplar::program::Copy(c, t));
  return t;
}

// Runs a program in which the same results were made twice, and compares their bits.
class Twice {
 public:
  Twice() : graph(poplar::Target::createIPUTarget(1, 5, "ipu2")) {}
  Tensor operand(const poplar::Type& type, const std::vector<std::size_t>& shape) {
    return Filled(graph, prog, type, shape, seed_++);
  }
  void same(const std::vector<Tensor>& expected, const std::vector<Tensor>& actual) {
    CHECK_EQ(expected.size(), actual.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CHECK(expected[i].shape() == actual[i].shape());
      CHECK(expected[i].elementType() == actual[i].elementType());
      graph.createHostRead("e" + std::to_string(i), expected[i]);
      graph.createHostRead("a" + std::to_string(i), actual[i]);
    }
    poplar::Engine engine(graph, prog);
    engine.load();
    engine.run();
    for (std::size_t i = 0; i < expected.size(); ++i) {
      Bytes e(expected[i].numElements() * SizeOf(DTypeOf(expected[i].elementType()))), a(e.size());
      engine.readTensor("e" + std::to_string(i), e.data(), e.data() + e.size());
      engine.readTensor("a" + std::to_string(i), a.data(), a.data() + a.size());
      CHECK(e == a);
      CHECK(e != Bytes(e.size()));  // not zeros alone
    }
  }
  Graph graph;
  Sequence prog;

 private:
  unsigned seed_ = 1;
};

TEST(Map) {
  Twice t;
  const Expression add = Binary(ScalarOp::kAdd, DType::kF32, DType::kF32);
  const Tensor x = t.operand(poplar::FLOAT, {7, 9}), y = t.operand(poplar::FLOAT, {7, 9}),
               z = t.operand(poplar::FLOAT, {7, 9});
  const std::vector<Tensor> e = hlo::map(t.graph, add, {x, y}, {Tensor()}, t.prog),
                            a = standalone::map(t.graph, add, {x, y}, {Tensor()}, t.prog, {});
  // In place, with the overwritten tensor as the other input as well.
  const Tensor copy = t.graph.clone(z), over = t.graph.clone(z);
  t.prog.add(poplar::program::Copy(z, copy));
  t.prog.add(poplar::program::Copy(z, over));
  hlo::map(t.graph, add, {copy, copy}, {copy}, t.prog);
  standalone::map(t.graph, add, {over, over}, {over}, t.prog, {});
  t.same({e[0], copy}, {a[0], over});
}

TEST(SlicesGatherScatter) {
  Twice t;
  const Tensor x = t.operand(poplar::FLOAT, {12, 9});
  const Tensor start = t.operand(poplar::UNSIGNED_INT, {}), other = t.operand(poplar::UNSIGNED_INT, {});
  const Tensor update = t.operand(poplar::FLOAT, {3, 9});
  const Tensor places = t.operand(poplar::INT, {11});
  const WindowDims rows = Dims({1}, {0}, {0}, 1), elements = Dims({0}, {1}, {1}, 1);
  const Expression add = Binary(ScalarOp::kAdd, DType::kF32, DType::kF32);
  const Tensor updates = t.operand(poplar::FLOAT, {11, 9});
  std::vector<Tensor> e, a;
  for (const std::vector<std::size_t>& sizes : {std::vector<std::size_t>{3, 9}, {2, 4}, {12, 9}}) {
    e.push_back(hlo::dynamicSlice(t.graph, x, {start, other}, sizes, t.prog));
    a.push_back(standalone::dynamicSlice(t.graph, x, {start, other}, sizes, t.prog, {}));
  }
  e.push_back(hlo::dynamicUpdateSlice(t.graph, x, update, {start, other}, t.prog));
  a.push_back(standalone::dynamicUpdateSlice(t.graph, x, update, {start, other}, t.prog, false, {}));
  e.push_back(hlo::gather(t.graph, x, places, rows, {1, 9}, t.prog));
  a.push_back(standalone::gather(t.graph, x, places, rows, {1, 9}, t.prog, {}));
  e.push_back(hlo::gather(t.graph, x, places, elements, {12, 1}, t.prog));
  a.push_back(standalone::gather(t.graph, x, places, elements, {12, 1}, t.prog, {}));
  e.push_back(hlo::scatter(t.graph, {x}, places, {updates}, rows, false, add, t.prog)[0]);
  a.push_back(standalone::scatter(t.graph, {x}, places, {updates}, rows, add, t.prog, false, {})[0]);
  t.same(e, a);
}

TEST(ReductionsAndWindows) {
  Twice t;
  const Tensor x = t.operand(poplar::INT, {6, 10, 8}), init = t.operand(poplar::INT, {});
  const Expression add = Binary(ScalarOp::kAdd, DType::kS32, DType::kS32),
                   ge = Binary(ScalarOp::kGe, DType::kS32, DType::kPred);
  std::vector<Tensor> e, a;
  for (const std::vector<std::size_t>& dims : {std::vector<std::size_t>{1}, {0, 2}, {0, 1, 2}}) {
    e.push_back(hlo::reduce(t.graph, {x}, {init}, dims, add, t.prog)[0]);
    a.push_back(standalone::reduce(t.graph, {x}, {init}, dims, add, t.prog, {}, false)[0]);
  }
  const Tensor halves = t.operand(poplar::HALF, {6, 10, 8}), half = t.operand(poplar::HALF, {});
  for (const ScalarOp op : {ScalarOp::kAdd, ScalarOp::kMaximum}) {
    const Expression body = Binary(op, DType::kF16, DType::kF16);
    e.push_back(hlo::reduce(t.graph, {halves}, {half}, {0, 2}, body, t.prog, {}, true)[0]);
    a.push_back(standalone::reduce(t.graph, {halves}, {half}, {0, 2}, body, t.prog, {}, true)[0]);
    CHECK(a.back().elementType() == (op == ScalarOp::kAdd ? poplar::FLOAT : poplar::HALF));
  }
  WindowParameters window;
  window.geometry.rank = 3;
  window.geometry.dim[1] = {3, 2, 1, 1, 1};
  window.geometry.dim[2] = {2, 2, 1, 1, 0};
  window.paddingHigh = {0, 0, 0};
  const std::vector<std::size_t> shape = windowOutputShape(x.shape(), window);
  e.push_back(hlo::reduceWindow(t.graph, {x}, {init}, window, add, t.prog)[0]);
  a.push_back(standalone::reduceWindow(t.graph, {x}, {init}, window.geometry, shape, add, t.prog, {})[0]);
  const Tensor source = t.operand(poplar::INT, shape);
  e.push_back(hlo::selectAndScatter(t.graph, x, source, init, window, ge, add, t.prog));
  a.push_back(standalone::selectAndScatter(t.graph, x, source, init, window.geometry, ge, add, t.prog, {}));
  t.same(e, a);
}

TEST(SortsAndRandomBits) {
  Twice t;
  const Tensor x = t.operand(poplar::FLOAT, {4, 11}), state = t.operand(poplar::UNSIGNED_INT, {4});
  const Expression less = Binary(ScalarOp::kLt, DType::kF32, DType::kPred);
  std::vector<Tensor> e, a;
  for (const std::size_t dimension : {0, 1}) {
    e.push_back(hlo::sort(t.graph, {x}, dimension, less, t.prog)[0]);
    a.push_back(standalone::sort(t.graph, {x}, dimension, less, false, t.prog, {})[0]);
    e.push_back(hlo::sortWithPositions(t.graph, {x}, dimension, less, t.prog)[1]);
    a.push_back(standalone::sort(t.graph, {x}, dimension, less, true, t.prog, {})[1]);
  }
  const auto best = hlo::topK(t.graph, x, 3, t.prog),
             found = standalone::topK(t.graph, x, 3, t.prog, true, {});
  const auto bits = hlo::rngBitGenerator(t.graph, RandomAlgorithm::kThreeFry, state, poplar::UNSIGNED_INT,
                                         {9, 4}, t.prog),
             drawn = standalone::rngBitGenerator(t.graph, RandomAlgorithm::kThreeFry, state,
                                                 poplar::UNSIGNED_INT, {9, 4}, t.prog, {});
  e.insert(e.end(), {best.first, best.second, bits.first, bits.second});
  a.insert(a.end(), {found.first, found.second, drawn.first, drawn.second});
  t.same(e, a);
}

}  // namespace
}  // namespace hlo::testing
