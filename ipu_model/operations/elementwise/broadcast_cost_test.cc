// Vertices that broadcast a vector against PopLibs' estimators over a grid
// (lib/popops/popopsCycleEstimators.cpp). With MODEL_ACCURACY_TABLE set, prints rows of
// docs/model_accuracy.md.
#include "operations/elementwise/broadcast_cost.h"

#include <algorithm>
#include <string>
#include <vector>

#include "check.h"
#include "core/target/target_model.h"
#include "operations/elementwise/elementwise_cost.h"
#include "testing/vertex_comparison.h"
#include "testing/vertex_cost.h"

namespace ipu_model {
namespace {

constexpr double kTolerance = 0.01;

struct Operation {
  const char* name;
  ScalarOp op;
};
const std::vector<Operation> kSums = {
    {"add", ScalarOp::kAdd}, {"subtract", ScalarOp::kSubtract}, {"multiply", ScalarOp::kMultiply}};

// Elements of `extents`, along which the second operand repeats or not.
ElementwiseCost CostOf(ScalarOp op, DType type, bool in_place, const std::vector<bool>& repeats) {
  return ElementwiseCost(OneOperation(op, type, 2, false), {}, in_place, {{false, false, false}, repeats});
}
std::string NameOfVertex(const char* vertex, bool in_place, const char* op, DType type) {
  return std::string("popops::") + vertex + (in_place ? "InPlace<" : "<") + op + "," + NameOf(type) + ">";
}

// Cycles of a worker in vectorInner{Add,Mul,Div}CoreCycles of halves, with vectors of four.
double AddCore(unsigned length, unsigned blocks) {
  const double slow = 5 + length * (2.0 + blocks * 9 + 3) + 1;
  if (length > 2048) return 3 + slow;
  if (length % 8 == 0) {
    const unsigned pairs = length / 8;
    return 5 + 2 + (blocks == 1 ? 3 + 7.0 * pairs + 1 : 4 + pairs * (8.0 + 2 * (blocks - 1) + 7) + 1);
  }
  if (blocks < 2) return 7 + slow;
  return 9 + 5 + length / 4 * (7.0 + 2 * (blocks / 2 - 1) + 1 + blocks % 2 + 5) + 1;
}
double MultiplyCore(unsigned length, unsigned blocks, bool in_place) {
  const double checks = 3 + 2 + (in_place ? 0 : length > 2044 ? 2 : 4);
  const bool pipeline = !in_place && length <= 2044 && blocks > 1;
  return checks + 3 + length / 4 * (pipeline ? 6.0 + blocks + 3 : 4.0 + 2 * blocks + 3) + 1;
}
double DivideCore(DType type, unsigned length, unsigned blocks) {
  constexpr double kDivide = 3;
  if (type == DType::kF32) {
    if (length % 2 == 1) return 6 + 2 + length * (3 + (blocks - 1) * (kDivide + 1) + kDivide + 3) + 1;
    return 6 + 3 + length / 2 * (2 + kDivide + (blocks - 1) * 2 * kDivide + kDivide + 3) + 1;
  }
  const double last = blocks % 2 == 1 ? 2 + kDivide + 3 : 0;
  if (length == 1 && blocks == 1) return 1 + 7 + 7 + last + 1;
  if (length == 1) return 1 + 7 + 10 + 2 * kDivide + (blocks / 2 - 1) * (2 + 2 * kDivide) + 3 + last + 1;
  if (length % 2 == 1) {
    const unsigned more = length / 2 - 1;
    const double even = 3 + kDivide * 2 + more * (3 + kDivide * 2) + 3;
    const double odd = 5 + kDivide * 2 + 1 + more * (4 + kDivide * 2) + 3 + kDivide * 2 + 3;
    return 1 + 8 + blocks / 2 * (even + odd) + (blocks % 2 == 1 ? even + last : 0) + 1;
  }
  return 1 + 8 + length / 2 * (3 + kDivide * 2 + (blocks - 1) * (2 + 2 * kDivide) + 4) + 4 + 1;
}

double InnerOf(ScalarOp op, DType type, bool in_place, unsigned slices, unsigned length, unsigned times) {
  const unsigned blocks = Ceil(times, kWorkers), again = slices > 1 ? 17 : 0;
  const bool half = type == DType::kF16;
  if (op == ScalarOp::kDivide) {
    return 1 + 12 + kWorkers * ((half ? 24 : 19) + slices * (again + DivideCore(type, length, blocks))) +
           (in_place ? 2 : 4) + 1;
  }
  if (op == ScalarOp::kMultiply) {
    const double worker = 19 + slices * (again + MultiplyCore(length, blocks, in_place));
    return 13 + kWorkers * (24 + worker) + (in_place ? 6 + 3 * kWorkers : 2 * kWorkers);
  }
  const double all = 13 + kWorkers * (19 + slices * (again + AddCore(length, blocks)));
  return all + (op == ScalarOp::kAdd && in_place ? 2 * kWorkers : 6 + 3 * kWorkers);
}

TEST(InnerVectorsEqualPopLibs) {
  const TargetModel& target = FindTargetModel("ipu2");
  std::vector<Operation> operations = kSums;
  operations.push_back({"divide", ScalarOp::kDivide});
  for (const Operation& operation : operations) {
    for (const DType type : {DType::kF32, DType::kF16}) {
      const bool divide = operation.op == ScalarOp::kDivide;
      if (type == DType::kF32 && !divide) continue;  // a copy of the operand and BinaryOp1D
      for (const bool in_place : {false, true}) {
        Comparison comparison(NameOfVertex("BroadcastVectorInner1D", in_place, operation.name, type),
                              kTolerance);
        for (const unsigned slices : {1u, 3u}) {
          const ElementwiseCost cost = CostOf(operation.op, type, in_place, {false, true, false});
          for (const unsigned length : {1u, 4u, 7u, 12u, 64u, 768u, 2560u}) {
            if (length == 1 && slices > 1) continue;  // one element for each slice: rows
            if (length == 1 || (length % 4 != 0 && !divide)) continue;
            for (const unsigned times : {2u, 6u, 7u, 100u, 1000u})
              comparison.Add(cost.Cycles(target, {slices, times, length}),
                             InnerOf(operation.op, type, in_place, slices, length, times));
          }
        }
      }
    }
  }
}

TEST(OuterVectorsEqualPopLibs) {
  const TargetModel& target = FindTargetModel("ipu2");
  for (const Operation& operation : kSums) {
    for (const DType type : {DType::kF32, DType::kF16}) {
      for (const bool in_place : {false, true}) {
        Comparison by_row(NameOfVertex("BroadcastVectorOuterByRow1D", in_place, operation.name, type),
                          kTolerance);
        Comparison by_column(NameOfVertex("BroadcastVectorOuterByColumn1D", in_place, operation.name, type),
                             kTolerance);
        const ElementwiseCost cost = CostOf(operation.op, type, in_place, {false, false, true});
        for (const unsigned rows : {2u, 6u, 7u, 100u, 1000u}) {
          for (const unsigned columns : {2u, 3u, 8u, 11u, 30u, 64u, 101u, 768u}) {
            const unsigned width = WidthOf(type), before = columns % width == 0 ? 7 : 25;
            const bool rows_shared = columns < kWorkers * width;
            // basicOpLoopCycles, which divides the cycles of all elements by the width of a vector.
            const auto row = [&](unsigned n) { return before + 2 * (n + width - 1) / width; };
            const double worker = rows_shared ? 15.0 + Ceil(rows, kWorkers) * row(columns)
                                              : 15.0 + rows * row(Ceil(columns, kWorkers));
            Comparison& comparison = rows_shared ? by_row : by_column;
            comparison.Add(cost.Cycles(target, {1, rows, columns}), worker * kWorkers + 11);
          }
        }
      }
    }
  }
}

// Where PopLibs has no such vertex, the operand is copied and the vertex is that of two whole operands.
// A value for each row, where a tile has parts of rows: createVertexBinaryOpBroadcastScalar
// (lib/popops/ElementWise.cpp) takes the cheaper of a BroadcastScalar1D for each row and a BroadcastScalar2D
// for each worker.
TEST(ValuesOfPartsOfRowsEqualPopLibs) {
  const TargetModel& target = FindTargetModel("ipu2");
  const std::vector<bool> repeats = {false, false, true};
  const std::vector<std::vector<std::int64_t>> two = {{1, 1, 300}, {1, 1, 228}};
  const auto rows = [](unsigned loop) {
    double cycles = 0;
    for (const unsigned n : {300u, 228u})
      cycles += kWorkers * (20.0 + Ceil(Ceil(n, kWorkers), 2) * loop) + 11;
    return cycles;
  };
  CHECK_EQ(
      static_cast<double>(CostOf(ScalarOp::kDivide, DType::kF32, false, repeats).CyclesOfParts(target, two)),
      rows(6));
  CHECK_EQ(
      static_cast<double>(CostOf(ScalarOp::kAdd, DType::kF32, false, repeats).CyclesOfParts(target, two)),
      rows(1 + 1));
  // 40 rows of 10: of the workers, which have 16 or 17 groups of 4 elements, the second has the end of a row,
  // six and the begin of another, each with 28 cycles beside 5 for two elements.
  const std::vector<std::vector<std::int64_t>> many(40, {1, 1, 10});
  const double worker = 20 + 8 * 28 + 5 * (3 + 6 * 5 + 1);
  CHECK_EQ(
      static_cast<double>(CostOf(ScalarOp::kAdd, DType::kF32, false, repeats).CyclesOfParts(target, many)),
      kWorkers * worker);
  // Rows of two elements are too short for either: one BinaryOp1D.
  const std::vector<std::vector<std::int64_t>> short_rows(40, {1, 1, 2});
  CHECK_EQ(static_cast<double>(
               CostOf(ScalarOp::kAdd, DType::kF32, false, repeats).CyclesOfParts(target, short_rows)),
           kWorkers * (29.0 + 3 * Ceil(Ceil(80, kWorkers), 2)) + 11);
}

TEST(OtherBroadcastsAreBinaryOperations) {
  const TargetModel& target = FindTargetModel("ipu2");
  const auto general = [&](ScalarOp op, DType type, const std::vector<bool>& repeats) {
    return CostOf(op, type, false, repeats).Cycles(target, {1, 60, 768}) ==
           ElementwiseCost(OneOperation(op, type, 2, false)).Cycles(target, 60 * 768);
  };
  const std::vector<bool> inner = {false, true, false}, outer = {false, false, true};
  CHECK(general(ScalarOp::kAdd, DType::kF32, inner));
  CHECK(general(ScalarOp::kMaximum, DType::kF16, inner));
  CHECK(general(ScalarOp::kDivide, DType::kF32, outer));
  CHECK(general(ScalarOp::kAdd, DType::kS32, outer));
  CHECK(!general(ScalarOp::kAdd, DType::kF32, outer));
  // One row for each vertex is one element.
  const ElementwiseCost row = CostOf(ScalarOp::kMaximum, DType::kF32, false, outer);
  CHECK_EQ(row.Cycles(target, {1, 1, 768}),
           ElementwiseCost(OneOperation(ScalarOp::kMaximum, DType::kF32, 2, false), {false, true})
               .Cycles(target, 768));
  // The first operand repeats only where it can take the place of the second.
  const auto first = [&](ScalarOp op) {
    return ElementwiseCost(OneOperation(op, DType::kF32, 2, false), {}, false, {outer, {false, false, false}})
        .Cycles(target, {1, 60, 768});
  };
  CHECK_EQ(first(ScalarOp::kMultiply),
           CostOf(ScalarOp::kMultiply, DType::kF32, false, outer).Cycles(target, {1, 60, 768}));
  CHECK(first(ScalarOp::kSubtract) > first(ScalarOp::kMultiply));
}

}  // namespace
}  // namespace ipu_model
