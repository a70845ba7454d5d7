// Elementwise vertices against PopLibs' estimators over a grid: the formulas of
// lib/popops/popopsCycleEstimators.cpp and PerformanceEstimation.cpp, with rows of their tables. With
// MODEL_ACCURACY_TABLE set, prints rows of docs/model_accuracy.md.
#include "operations/elementwise/elementwise_cost.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "check.h"
#include "core/target_model.h"
#include "testing/vertex_comparison.h"

namespace ipu_model {
namespace {

constexpr unsigned kWorkers = 6;
const std::vector<std::int64_t> kSizes = {1, 2, 7, 12, 64, 100, 1000, 4096, 30001};

unsigned Ceil(std::int64_t a, unsigned b) { return static_cast<unsigned>((a + b - 1) / b); }
unsigned WidthOf(DType type) { return type == DType::kF16 ? 4 : type == DType::kPred ? 8 : 2; }

struct Info {  // OpPerformanceInfo
  unsigned cycles;
  bool natural;
  unsigned unroll;
};
struct Row {
  const char* name;
  ScalarOp op;
  DType type;
  Info info;
};

Expression OneOperation(ScalarOp op, DType type, int operands, bool constant) {
  Expression e;
  e.inputs.assign(static_cast<std::size_t>(operands - (constant ? 1 : 0)), type);
  if (constant) {
    e.constants.emplace_back();
    e.constants[0].type = type;
  }
  Instruction i;
  i.op = op;
  i.operand_type = i.result_type = type;
  for (int k = 0; k < operands; ++k) i.operand[k] = static_cast<std::uint16_t>(k);
  e.code = {i};
  e.outputs = {static_cast<std::uint16_t>(operands)};
  return e;
}

constexpr double kTolerance = 0.1;

TEST(BinaryVerticesEqualPopLibs) {
  const TargetModel& target = FindTargetModel("ipu2");
  const std::vector<Row> rows = {{"add,float", ScalarOp::kAdd, DType::kF32, {1, true, 0}},
                                 {"multiply,half", ScalarOp::kMultiply, DType::kF16, {1, true, 0}},
                                 {"subtract,float", ScalarOp::kSubtract, DType::kF32, {1, true, 0}},
                                 {"maximum,float", ScalarOp::kMaximum, DType::kF32, {3, false, 2}},
                                 {"minimum,half", ScalarOp::kMinimum, DType::kF16, {4, false, 4}},
                                 {"divide,float", ScalarOp::kDivide, DType::kF32, {10, false, 2}},
                                 {"divide,half", ScalarOp::kDivide, DType::kF16, {21, false, 4}},
                                 {"power,float", ScalarOp::kPower, DType::kF32, {312, false, 1}},
                                 {"greater,float", ScalarOp::kGt, DType::kF32, {14, false, 4}},
                                 {"not equal,half", ScalarOp::kNe, DType::kF16, {11, false, 4}},
                                 {"add,int", ScalarOp::kAdd, DType::kS32, {7, false, 1}},
                                 {"divide,int", ScalarOp::kDivide, DType::kS32, {277, false, 1}},
                                 {"less equal,int", ScalarOp::kLe, DType::kS32, {26, false, 4}},
                                 {"and,bool", ScalarOp::kAnd, DType::kPred, {5, false, 4}}};
  for (const Row& row : rows) {
    for (const bool in_place : {false, true}) {
      // The tables in place differ in these.
      if (in_place && (row.op == ScalarOp::kMaximum || row.op == ScalarOp::kMinimum)) continue;
      Comparison comparison(
          std::string("popops::BinaryOp1D") + (in_place ? "InPlace<" : "<") + row.name + ">", kTolerance);
      const ElementwiseCost cost(OneOperation(row.op, row.type, 2, false), {}, in_place);
      for (const std::int64_t n : kSizes) {
        const unsigned loop = row.info.natural ? row.info.cycles + 2 : row.info.cycles;
        const unsigned width = row.info.natural ? WidthOf(row.type) : row.info.unroll;
        const unsigned entry = in_place ? 58 : row.type == DType::kF32 ? 29 : 26;
        comparison.Add(cost.Cycles(target, n),
                       kWorkers * (entry + Ceil(Ceil(n, kWorkers), width) * loop) + 11.0);
      }
    }
  }
}

TEST(UnaryVerticesEqualPopLibs) {
  const TargetModel& target = FindTargetModel("ipu2");
  const std::vector<Row> rows = {{"exp,float", ScalarOp::kExp, DType::kF32, {6, false, 2}},
                                 {"exp,half", ScalarOp::kExp, DType::kF16, {4, false, 4}},
                                 {"log,float", ScalarOp::kLog, DType::kF32, {12, false, 2}},
                                 {"tanh,half", ScalarOp::kTanh, DType::kF16, {4, false, 4}},
                                 {"sigmoid,float", ScalarOp::kLogistic, DType::kF32, {12, false, 2}},
                                 {"rsqrt,float", ScalarOp::kRsqrt, DType::kF32, {8, false, 2}},
                                 {"sqrt,half", ScalarOp::kSqrt, DType::kF16, {23, false, 4}},
                                 {"floor,float", ScalarOp::kFloor, DType::kF32, {2, true, 0}},
                                 {"expm1,half", ScalarOp::kExpm1, DType::kF16, {5, true, 0}},
                                 {"log1p,float", ScalarOp::kLog1p, DType::kF32, {18, true, 0}},
                                 {"abs,float", ScalarOp::kAbs, DType::kF32, {1, false, 0}},
                                 {"expm1,float", ScalarOp::kExpm1, DType::kF32, {4, false, 0}},
                                 {"sin,float", ScalarOp::kSin, DType::kF32, {2300, false, 0}},
                                 {"erf,half", ScalarOp::kErf, DType::kF16, {13, false, 1}},
                                 {"signum,float", ScalarOp::kSign, DType::kF32, {5, true, 0}},
                                 {"square,float", ScalarOp::kSquare, DType::kF32, {2, false, 2}}};
  for (const Row& row : rows) {
    Comparison comparison(std::string("popops::UnaryOp1D<") + row.name + ">", kTolerance);
    const ElementwiseCost cost(OneOperation(row.op, row.type, 1, false));
    for (const std::int64_t n : kSizes) {
      const unsigned share = Ceil(n, kWorkers);
      double loops = 0;
      if (!row.info.natural && row.info.unroll > 0) {
        loops = Ceil(share, row.info.unroll) * double{1} * row.info.cycles;
      } else {
        // basicOpLoopCycles, which divides the cycles of all elements by the width of a vector.
        const unsigned width = row.info.natural ? WidthOf(row.type) : 1;
        loops = Ceil(share, width) * double{1} * (row.info.cycles + 4);
      }
      const unsigned entry = row.op == ScalarOp::kExp ? 33 : 17;
      comparison.Add(cost.Cycles(target, n), kWorkers * (entry + loops) + 9 + 11);
    }
  }
}

TEST(BroadcastVerticesEqualPopLibs) {
  const TargetModel& target = FindTargetModel("ipu2");
  const std::vector<Row> rows = {{"add,float", ScalarOp::kAdd, DType::kF32, {1, true, 0}},
                                 {"multiply,half", ScalarOp::kMultiply, DType::kF16, {1, true, 0}},
                                 {"maximum,half", ScalarOp::kMaximum, DType::kF16, {3, false, 4}},
                                 {"divide,float", ScalarOp::kDivide, DType::kF32, {6, false, 2}},
                                 {"greater,half", ScalarOp::kGt, DType::kF16, {8, false, 4}}};
  for (const Row& row : rows) {
    Comparison comparison(std::string("popops::BroadcastScalar1D<") + row.name + ">", kTolerance);
    const ElementwiseCost constant(OneOperation(row.op, row.type, 2, true));
    const ElementwiseCost scalar(OneOperation(row.op, row.type, 2, false), {false, true});
    for (const std::int64_t n : kSizes) {
      const unsigned loop = row.info.natural ? row.info.cycles + 1 : row.info.cycles;
      const unsigned width = row.info.natural ? WidthOf(row.type) : row.info.unroll;
      const double theirs = kWorkers * (20 + Ceil(Ceil(n, kWorkers), width) * loop) + 11.0;
      comparison.Add(constant.Cycles(target, n), theirs);
      comparison.Add(scalar.Cycles(target, n), theirs);
    }
  }
}

TEST(ScaledAddEqualsPopLibs) {
  const TargetModel& target = FindTargetModel("ipu2");
  for (const DType type : {DType::kF32, DType::kF16}) {
    Comparison comparison(
        std::string("popops::ScaledAddSupervisor<") + (type == DType::kF32 ? "float>" : "half>"), kTolerance);
    Expression e = OneOperation(ScalarOp::kMultiply, type, 2, true);
    e.inputs = {type, type};  // registers: a, b, scale, product, sum
    e.code[0].operand[0] = 1;
    e.code[0].operand[1] = 2;
    e.code.push_back(e.code[0]);
    e.code[1].op = ScalarOp::kAdd;
    e.code[1].operand[0] = 0;
    e.code[1].operand[1] = 3;
    e.outputs = {4};
    const ElementwiseCost cost(e, {}, /*in_place=*/true);
    for (const std::int64_t n : kSizes) {
      const unsigned width = WidthOf(type), vectors = static_cast<unsigned>(n) / width / kWorkers,
                     rest = static_cast<unsigned>(n) % width;
      double worker = 15;
      if (vectors > 0) worker += 6 + 3 * (vectors - 1);
      worker += 2 + 1;
      if (rest != 0) worker += type == DType::kF32 ? 8 : 5 + (rest >= 2 ? 7 : 0) + (rest == 3 ? 6 : 0);
      worker += 1;
      comparison.Add(cost.Cycles(target, n), 21 + 11 + (rest == 0 ? 7 : 13) + 12 + 6 + kWorkers * worker);
    }
  }
}

TEST(CastEqualsPopLibs) {
  const TargetModel& target = FindTargetModel("ipu2");
  struct Pair {
    const char* name;
    DType from, to;
    unsigned width, cycles;
  };
  for (const Pair& pair : std::vector<Pair>{{"half,float", DType::kF16, DType::kF32, 2, 1},
                                            {"float,half", DType::kF32, DType::kF16, 4, 2},
                                            {"int,float", DType::kS32, DType::kF32, 1, 2}}) {
    Comparison comparison(std::string("popops::Cast1D<") + pair.name + ">", kTolerance);
    Expression e = OneOperation(ScalarOp::kConvert, pair.from, 1, false);
    e.code[0].result_type = pair.to;
    const ElementwiseCost cost(e);
    for (const std::int64_t n : kSizes) {
      const unsigned share = Ceil(n, kWorkers);
      double worker = 19 + pair.cycles * (share / pair.width);
      for (unsigned bit = 1; bit < pair.width; bit *= 2)
        worker += 1 + ((share % pair.width & bit) != 0 ? 2 : 0);
      comparison.Add(cost.Cycles(target, n), 12 + kWorkers * (worker + 18));
    }
  }
}

// A generated codelet takes the longer of its loads and stores and its arithmetic.
TEST(FusedExpressions) {
  const TargetModel& target = FindTargetModel("ipu2");
  // x cos - y sin and x sin + y cos: four loads, two stores, two cycles of the loop, four operations.
  Expression e;
  e.inputs.assign(4, DType::kF32);
  const auto add = [&](ScalarOp op, int a, int b) {
    Instruction i;
    i.op = op;
    i.operand[0] = static_cast<std::uint16_t>(a);
    i.operand[1] = static_cast<std::uint16_t>(b);
    e.code.push_back(i);
  };
  add(ScalarOp::kMultiply, 0, 2);
  add(ScalarOp::kMultiply, 1, 3);
  add(ScalarOp::kSubtract, 4, 5);
  add(ScalarOp::kMultiply, 0, 3);
  add(ScalarOp::kMultiply, 1, 2);
  add(ScalarOp::kAdd, 7, 8);
  e.outputs = {6, 9};
  const auto per_vector = [&](const ElementwiseCost& cost) {
    return static_cast<double>(cost.Cycles(target, 24000) - cost.Cycles(target, 12000)) / (12000 / 2);
  };
  CHECK_EQ(per_vector(ElementwiseCost(e)), 8.0);
  // The same angle for all elements: cos and sin stay in registers.
  CHECK_EQ(per_vector(ElementwiseCost(e, {false, false, true, true})), 6.0);
}

}  // namespace
}  // namespace ipu_model

int main() { return jax_ipu::testing::RunTests(); }
