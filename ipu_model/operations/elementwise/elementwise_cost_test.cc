// Elementwise vertices against PopLibs' estimators over a grid: the formulas of
// lib/popops/popopsCycleEstimators.cpp and PerformanceEstimation.cpp, with rows of their tables. With
// MODEL_ACCURACY_TABLE set, prints rows of docs/model_accuracy.md.
#include "operations/elementwise/elementwise_cost.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "check.h"
#include "core/target/target_model.h"
#include "testing/vertex_comparison.h"
#include "testing/vertex_cost.h"

namespace ipu_model {
namespace {

const std::vector<std::int64_t> kSizes = {1, 2, 7, 12, 64, 100, 1000, 4096, 30001};

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

constexpr double kTolerance = 0.01;

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
      Comparison comparison(
          std::string("popops::BinaryOp1D") + (in_place ? "InPlace<" : "<") + row.name + ">", kTolerance);
      const ElementwiseCost cost(OneOperation(row.op, row.type, 2, false), {}, in_place);
      for (const std::int64_t n : kSizes) {
        unsigned loop = row.info.natural ? row.info.cycles + 2 : row.info.cycles;
        if (in_place && (row.op == ScalarOp::kMaximum || row.op == ScalarOp::kMinimum)) loop = 4;
        const unsigned width = row.info.natural ? WidthOf(row.type) : row.info.unroll;
        const unsigned entry = in_place ? 58 : row.type == DType::kF32 ? 29 : 26;
        comparison.Add(cost.Cycles(target, n),
                       kWorkers * (entry + Ceil(Ceil(n, kWorkers), width) * loop) + 11.0);
      }
    }
  }
}

void CompareUnary(const Row& row, bool in_place) {
  Comparison comparison(std::string("popops::UnaryOp1D") + (in_place ? "InPlace<" : "<") + row.name + ">",
                        kTolerance);
  Expression operation = OneOperation(row.op, row.type, 1, false);
  operation.code[0].immediate = kOfPopLibs;
  const ElementwiseCost cost(operation, {}, in_place);
  for (const std::int64_t n : kSizes) {
    const unsigned share = Ceil(n, kWorkers);
    double loops = 0;
    if (!row.info.natural && row.info.unroll > 0) {
      loops = Ceil(share, row.info.unroll) * double{1} * row.info.cycles;
    } else {
      // basicOpLoopCycles, which divides the cycles of all elements by the width of a vector.
      const unsigned width = row.info.natural ? WidthOf(row.type) : 1;
      loops = (row.info.cycles + 4) * (share + width - 1) / width;
    }
    const unsigned entry = in_place ? 55 : row.op == ScalarOp::kExp ? 33 : 17;
    comparison.Add(cost.Cycles(FindTargetModel("ipu2"), n), kWorkers * (entry + loops) + 9 + 11);
  }
}

// Functions that codelets have themselves, in place of the library's in software.
TEST(SinesOfCodeletsTakeTensOfCycles) {
  const TargetModel& target = FindTargetModel("ipu2");
  const auto cycles = [&](ScalarOp op, DType type, std::uint32_t immediate) {
    Expression operation = OneOperation(op, type, 1, false);
    operation.code[0].immediate = immediate;
    const ElementwiseCost cost(operation);
    return static_cast<double>(cost.Cycles(target, 12'000) - cost.Cycles(target, 6'000)) / 6'000;
  };
  for (const ScalarOp op : {ScalarOp::kSin, ScalarOp::kCos, ScalarOp::kTan}) {
    CHECK(cycles(op, DType::kF32, 0) >= 26);
    CHECK(cycles(op, DType::kF32, 0) <= 40);
    CHECK(cycles(op, DType::kF16, 0) <= 45);
    CHECK(cycles(op, DType::kBF16, 0) <= 80);
    CHECK(cycles(op, DType::kF32, kOfPopLibs) >= 2300);
  }
}

TEST(UnaryVerticesEqualPopLibs) {
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
  for (const Row& row : rows) CompareUnary(row, /*in_place=*/false);
  // The table in place.
  for (const Row& row : std::vector<Row>{{"exp,float", ScalarOp::kExp, DType::kF32, {6, false, 2}},
                                         {"log,float", ScalarOp::kLog, DType::kF32, {14, false, 2}},
                                         {"log,half", ScalarOp::kLog, DType::kF16, {6, false, 4}},
                                         {"tanh,float", ScalarOp::kTanh, DType::kF32, {10, false, 2}},
                                         {"tanh,half", ScalarOp::kTanh, DType::kF16, {2, false, 4}},
                                         {"sigmoid,float", ScalarOp::kLogistic, DType::kF32, {10, false, 2}},
                                         {"sigmoid,half", ScalarOp::kLogistic, DType::kF16, {4, false, 4}},
                                         {"abs,float", ScalarOp::kAbs, DType::kF32, {1, true, 0}},
                                         {"negate,half", ScalarOp::kNegate, DType::kF16, {3, false, 4}},
                                         {"rsqrt,half", ScalarOp::kRsqrt, DType::kF16, {19, false, 4}},
                                         {"floor,half", ScalarOp::kFloor, DType::kF16, {2, true, 0}},
                                         {"trunc,float", ScalarOp::kTrunc, DType::kF32, {4, false, 2}},
                                         {"log1p,half", ScalarOp::kLog1p, DType::kF16, {17, true, 0}},
                                         {"negate,int", ScalarOp::kNegate, DType::kS32, {2, false, 0}},
                                         {"not,bool", ScalarOp::kNot, DType::kPred, {17, true, 0}}})
    CompareUnary(row, /*in_place=*/true);
}

TEST(BroadcastVerticesEqualPopLibs) {
  const TargetModel& target = FindTargetModel("ipu2");
  const std::vector<Row> rows = {{"add,float", ScalarOp::kAdd, DType::kF32, {1, true, 0}},
                                 {"multiply,half", ScalarOp::kMultiply, DType::kF16, {1, true, 0}},
                                 {"maximum,half", ScalarOp::kMaximum, DType::kF16, {3, false, 4}},
                                 {"divide,float", ScalarOp::kDivide, DType::kF32, {6, false, 2}},
                                 {"greater,half", ScalarOp::kGt, DType::kF16, {8, false, 4}},
                                 {"add,int", ScalarOp::kAdd, DType::kS32, {6, false, 1}},
                                 {"less equal,int", ScalarOp::kLe, DType::kS32, {20, false, 4}},
                                 {"and,bool", ScalarOp::kAnd, DType::kPred, {4, false, 4}}};
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

// castWorkerCycles
double CastWorker(DType from, DType to, unsigned n) {
  const bool floats =
      (from == DType::kF32 || from == DType::kF16) && (to == DType::kF32 || to == DType::kF16);
  if (to == DType::kS64) return 3 + n * (from == DType::kU32 || from == DType::kF32 ? 4.0 : 5.0);
  if (SizeOf(from) == 1 && to == DType::kF16 && from == DType::kU8) {
    const double rest[] = {2, 12, 14, 22};
    return 4 + (n >= 4 ? 14 + (n / 4 - 1) * 9.0 : 0) + rest[n % 4];
  }
  if (from == DType::kF16 && SizeOf(to) == 1 && to != DType::kPred) {
    const double rest[] = {2, 14, 21, 29};
    return 4 + 4 + (n >= 4 ? 19 + (n / 4 - 1) * 16.0 : 0) + rest[n % 4];
  }
  const unsigned width = !floats ? 1 : std::min(2 * WidthOf(from), WidthOf(to));
  const unsigned loads = width / std::min(width, WidthOf(from)),
                 stores = width / std::min(width, WidthOf(to));
  double cycles = 19 + (std::max(loads, stores) + (floats ? 0 : 1)) * double{1} * (n / width);
  for (unsigned bit = 1; bit < width; bit *= 2) cycles += 1 + ((n % width & bit) != 0 ? 2 : 0);
  return cycles;
}

TEST(CastEqualsPopLibs) {
  const TargetModel& target = FindTargetModel("ipu2");
  const std::vector<std::pair<DType, DType>> pairs = {
      {DType::kF16, DType::kF32}, {DType::kF32, DType::kF16},  {DType::kS32, DType::kF32},
      {DType::kF16, DType::kS32}, {DType::kPred, DType::kF32}, {DType::kU8, DType::kF16},
      {DType::kS8, DType::kF16},  {DType::kF16, DType::kU8},   {DType::kF16, DType::kS8},
      {DType::kS32, DType::kS64}, {DType::kU32, DType::kS64}};
  for (const auto& [from, to] : pairs) {
    Comparison comparison(std::string("popops::Cast1D<") + NameOf(from) + "," + NameOf(to) + ">", kTolerance);
    Expression e = OneOperation(ScalarOp::kConvert, from, 1, false);
    e.code[0].result_type = to;
    const ElementwiseCost cost(e);
    std::vector<std::int64_t> sizes = kSizes;
    sizes.insert(sizes.end(), {13, 20, 30, 35, 1003});  // remainders of a worker's share
    for (const std::int64_t n : sizes)
      comparison.Add(cost.Cycles(target, n), 12 + kWorkers * (CastWorker(from, to, Ceil(n, kWorkers)) + 18));
  }
}

// The loop of a generated codelet: an operation follows what it reads, beside loads and stores of others.
TEST(FusedExpressions) {
  const TargetModel& target = FindTargetModel("ipu2");
  // x cos - y sin and x sin + y cos: four loads, then four operations, beside the second of which the first
  // result could be stored, a store and the control of the loop.
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
  CHECK_EQ(per_vector(ElementwiseCost(e)), 10.0);
  // The same angle for all elements: cos and sin stay in registers.
  CHECK_EQ(per_vector(ElementwiseCost(e, {false, false, true, true})), 8.0);
}

// PopLibs counts 5 cycles and those of the operation for a binary one, 4 for a unary one, in loops that a
// compiler makes (binaryOpInnerLoopCycles, unaryOpInnerLoopCycles in lib/popops/popopsCycleEstimators.cpp): a
// load for each operand, the operation, a store and two of control. A generated loop counts down in one.
TEST(FusedExpressionsBesidePopLibsLoops) {
  const TargetModel& target = FindTargetModel("ipu2");
  const auto trip = [&](const std::vector<Instruction>& code, std::size_t inputs) {
    Expression e;
    e.inputs.assign(inputs, DType::kF32);
    e.code = code;
    e.outputs = {static_cast<std::uint16_t>(inputs + code.size() - 1)};
    const ElementwiseCost cost(e);
    return static_cast<double>(cost.Cycles(target, 24000) - cost.Cycles(target, 12000)) / (12000 / 2);
  };
  const auto op = [](ScalarOp kind, int a, int b) {
    Instruction i;
    i.op = kind;
    i.operand[0] = static_cast<std::uint16_t>(a);
    i.operand[1] = static_cast<std::uint16_t>(b);
    return i;
  };
  // Two operations in a row.
  CHECK_EQ(trip({op(ScalarOp::kAdd, 0, 1), op(ScalarOp::kMaximum, 2, 1)}, 2), 6.0);
  CHECK_EQ(trip({op(ScalarOp::kNegate, 0, 0), op(ScalarOp::kMaximum, 1, 0)}, 1), 5.0);
  // x * y + z: three loads, an operation, a store, the control.
  CHECK_EQ(trip({op(ScalarOp::kMultiply, 0, 1), op(ScalarOp::kAdd, 3, 2)}, 3), 6.0);
  // A sum of six inputs: but for the last, the additions are beside loads.
  CHECK_EQ(trip({op(ScalarOp::kAdd, 0, 1), op(ScalarOp::kAdd, 6, 2), op(ScalarOp::kAdd, 7, 3),
                 op(ScalarOp::kAdd, 8, 4), op(ScalarOp::kAdd, 9, 5)},
                6),
           9.0);
}

}  // namespace
}  // namespace ipu_model
