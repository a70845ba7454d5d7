// popnn's losses and non-linearities and popops::scaledAddTo: values in both execution modes.
#include <cmath>

#include "check.h"
#include "poplar/Engine.hpp"
#include "poplar/IPUModel.hpp"
#include "popnn/Loss.hpp"
#include "popnn/NonLinearity.hpp"
#include "popops/Reduce.hpp"
#include "popops/ScaledAdd.hpp"
#include "poputil/TileMapping.hpp"

namespace {

using namespace poplar;
using namespace poplar::program;
using Values = std::vector<float>;

struct Fixture {
  Fixture() : graph(Target::createIPUTarget(1, 4, "ipu2")) {}
  Tensor Constant(const std::vector<std::size_t>& shape, const Values& values) {
    const Tensor t = graph.addConstant(FLOAT, shape, values);
    poputil::mapTensorLinearly(graph, t);
    return t;
  }
  Tensor Variable(const Type& type, const std::vector<std::size_t>& shape, const char* name) {
    const Tensor t = graph.addVariable(type, shape, name);
    poputil::mapTensorLinearly(graph, t);
    return t;
  }
  void Read(const char* name, const Tensor& t) { graph.createHostRead(name, t); }
  // Calls `check` with an engine of each mode that has run the program.
  template <typename F>
  void Run(F&& check) {
    for (const char* mode : {"fast", "tile"}) {
      Engine engine(graph, main, {{"execution", mode}});
      engine.load();
      engine.run();
      check(engine);
    }
  }
  static Values Get(Engine& engine, const char* name, std::size_t n) {
    Values values(n);
    engine.readTensor(name, values.data(), values.data() + n);
    return values;
  }
  Graph graph;
  Sequence main;
};

void CheckClose(const Values& got, const Values& want) {
  CHECK_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    CHECK(std::abs(got[i] - want[i]) <= 1e-5f * (1 + std::abs(want[i])));
}

}  // namespace

TEST(CrossEntropyWithItsGradient) {
  Fixture f;
  const Tensor p = f.Constant({2, 3}, {0.5f, 0.25f, 0.25f, 0.125f, 0.125f, 0.75f});
  const Tensor labels = f.graph.addConstant(UNSIGNED_INT, {2}, {1, 2});
  f.graph.setTileMapping(labels, 0);
  const Tensor loss = f.Variable(FLOAT, {2}, "loss"), deltas = f.Variable(FLOAT, {2, 3}, "deltas");
  const Tensor correct = f.Variable(UNSIGNED_INT, {1}, "correct");
  for (int i = 0; i < 2; ++i)
    f.main.add(popnn::calcLoss(f.graph, p, labels, loss, deltas, correct, popnn::CROSS_ENTROPY_LOSS));
  f.Read("loss", loss);
  f.Read("deltas", deltas);
  f.Read("correct", correct);
  f.Run([](Engine& engine) {
    CheckClose(Fixture::Get(engine, "loss", 2), {std::log(4.0f), -std::log(0.75f)});
    CheckClose(Fixture::Get(engine, "deltas", 6), {0.5f, -0.75f, 0.25f, 0.125f, 0.125f, -0.25f});
    unsigned n = 0;
    engine.readTensor("correct", &n, &n + 1);
    CHECK_EQ(n, 2u);  // one row, twice: the number accumulates
  });
}

TEST(SquaredLossWithAMaskedLabel) {
  Fixture f;
  const Tensor p = f.Constant({2, 2}, {3, 1, 5, 5});
  const Tensor labels = f.graph.addConstant(UNSIGNED_INT, {2}, {0u, popnn::MASKED_LABEL_CODE});
  f.graph.setTileMapping(labels, 0);
  const Tensor loss = f.Variable(FLOAT, {2}, "loss"), deltas = f.Variable(FLOAT, {2, 2}, "deltas");
  f.main.add(popnn::calcLoss(f.graph, p, labels, loss, deltas, popnn::SUM_SQUARED_LOSS));
  f.Read("loss", loss);
  f.Read("deltas", deltas);
  f.Run([](Engine& engine) {
    CheckClose(Fixture::Get(engine, "loss", 2), {2.5f, 0});
    CheckClose(Fixture::Get(engine, "deltas", 4), {2, 1, 0, 0});
  });
}

TEST(SoftmaxesAndArguments) {
  Fixture f;
  const Tensor x = f.Constant({2, 3}, {0, std::log(2.0f), 0, 1, 1, 1});
  f.Read("plain", popnn::softmax(f.graph, x, f.main));
  f.Read("stable", popnn::softmaxStable(f.graph, x, f.main));
  f.Read("scaled", popnn::scaledSoftmaxStable(f.graph, x, f.main));
  f.Read("hard", popnn::hardSigmoid(f.graph, x, f.main));
  f.Read("max", popnn::argMax(f.graph, x, f.main));
  f.Read("min", popnn::argMin(f.graph, x, f.main));
  f.Run([](Engine& engine) {
    const float third = 1.0f / 3;
    const Values want{0.25f, 0.5f, 0.25f, third, third, third};
    CheckClose(Fixture::Get(engine, "plain", 6), want);
    CheckClose(Fixture::Get(engine, "stable", 6), want);
    Values scaled = want;
    for (float& v : scaled) v *= popnn::SOFTMAX_SCALING;
    CheckClose(Fixture::Get(engine, "scaled", 6), scaled);
    CheckClose(Fixture::Get(engine, "hard", 6), {0.5f, 0.5f + 0.2f * std::log(2.0f), 0.5f, 0.7f, 0.7f, 0.7f});
    unsigned index[2] = {9, 9};
    engine.readTensor("max", index, index + 2);
    CHECK(index[0] == 1 && index[1] == 0);
    engine.readTensor("min", index, index + 2);
    CHECK(index[0] == 0 && index[1] == 0);
  });
}

TEST(ScaledSumsAndComputeSetsOfReductions) {
  Fixture f;
  const Tensor b = f.Constant({3}, {1, 2, 3}), two = f.Constant({}, {2});
  const Tensor a = f.Variable(FLOAT, {3}, "a"), sum = f.Variable(FLOAT, {1}, "sum");
  popops::scaledAddTo(f.graph, a, b, 2.0f, f.main);         // 2 4 6
  popops::scaledSubtractFrom(f.graph, a, b, two, f.main);   // 0 0 0
  popops::scaledAddTo(f.graph, a, 3.0f, b, -1.0f, f.main);  // -1 -2 -3
  popops::scaledAddTo(f.graph, a, two, b, two, f.main);     // 0 0 0
  popops::scaledAddTo(f.graph, a, b, two, f.main);          // 2 4 6
  std::vector<ComputeSet> sets;
  popops::reduceWithOutput(f.graph, a.expand({0}), sum, {1}, popops::Operation::ADD, sets);
  CHECK_EQ(sets.size(), 1u);
  for (const ComputeSet& set : sets) f.main.add(Execute(set));
  f.Read("a", a);
  f.Read("sum", sum);
  f.Run([](Engine& engine) {
    CheckClose(Fixture::Get(engine, "a", 3), {2, 4, 6});
    CheckClose(Fixture::Get(engine, "sum", 1), {12});
  });
}
