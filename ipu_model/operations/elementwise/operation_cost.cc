#include "operations/elementwise/operation_cost.h"

#include <algorithm>
#include <iterator>

#include "hlo/ScalarOps.hpp"
#include "kernels/host/integer_division.h"

namespace ipu_model {
namespace {

struct OperationCost {
  ScalarOp op;
  LoopCost f32, f16;            // of a vertex with this operation alone
  LoopCost f32_unit, f16_unit;  // of the arithmetic alone, beside loads and stores
};

// From PopLibs lib/popops/popopsCycleEstimators.hpp (unaryOpPerfInfo, binaryOpPerfInfo). A "natural" loop of
// c cycles per vector is listed as c + 4 for unary operations, c + 2 for the binary ones in assembly and c +
// 5 for the others, as unaryOpInnerLoopCycles and binaryOpInnerLoopCycles do. The arithmetic of a fused
// codelet is c, one instruction for each vector where the loop consists of loads and stores, or the whole
// loop of functions that take several instructions. Rows marked (m) are the model's own estimates: PopLibs
// has no such operation, so the nearest one is used.
constexpr OperationCost kFloatCosts[] = {
    {ScalarOp::kAbs, {5, 1}, {5, 1}, {1, 2}, {1, 4}},
    {ScalarOp::kNegate, {2, 2}, {2, 4}, {1, 2}, {1, 4}},
    {ScalarOp::kSquare, {2, 2}, {2, 4}, {1, 2}, {1, 4}},
    {ScalarOp::kSign, {9, 2, true}, {9, 4, true}, {5, 2}, {5, 4}},
    {ScalarOp::kCeil, {6, 2, true}, {6, 4, true}, {2, 2}, {2, 4}},
    {ScalarOp::kFloor, {6, 2, true}, {6, 4, true}, {2, 2}, {2, 4}},
    {ScalarOp::kTrunc, {3, 2}, {11, 4}, {2, 2}, {10, 4}},
    {ScalarOp::kRoundNearestEven, {6, 2, true}, {6, 4, true}, {2, 2}, {2, 4}},
    {ScalarOp::kRoundNearestAfz, {6, 2, true}, {6, 4, true}, {2, 2}, {2, 4}},
    {ScalarOp::kExp, {6, 2}, {4, 4}, {6, 2}, {4, 4}},
    {ScalarOp::kExpm1, {8, 1}, {9, 4, true}, {4, 1}, {5, 4}},
    {ScalarOp::kLog, {12, 2}, {4, 4}, {12, 2}, {4, 4}},
    {ScalarOp::kLog1p, {22, 2, true}, {22, 4, true}, {18, 2}, {18, 4}},
    {ScalarOp::kTanh, {12, 2}, {4, 4}, {10, 2}, {2, 4}},
    {ScalarOp::kLogistic, {12, 2}, {6, 4}, {10, 2}, {4, 4}},
    {ScalarOp::kSqrt, {10, 2}, {23, 4}, {10, 2}, {23, 4}},
    {ScalarOp::kRsqrt, {8, 2}, {19, 4}, {8, 2}, {19, 4}},
    {ScalarOp::kInverse, {6, 2}, {15, 4}, {6, 2}, {15, 4}},
    {ScalarOp::kCbrt, {31, 2, true}, {21, 4, true}, {27, 2}, {17, 4}},
    {ScalarOp::kErf, {41, 1}, {13, 1}, {41, 1}, {13, 1}},
    {ScalarOp::kSin, {2304, 1}, {25, 1}, {2300, 1}, {25, 1}},
    {ScalarOp::kCos, {2304, 1}, {25, 1}, {2300, 1}, {25, 1}},
    {ScalarOp::kTan, {5100, 1}, {5700, 1}, {5100, 1}, {5700, 1}},
    {ScalarOp::kIsFinite, {9, 2, true}, {9, 4, true}, {5, 2}, {5, 4}},
    {ScalarOp::kAdd, {3, 2}, {3, 4}, {1, 2}, {1, 4}},
    {ScalarOp::kSubtract, {3, 2}, {3, 4}, {1, 2}, {1, 4}},
    {ScalarOp::kMultiply, {3, 2}, {3, 4}, {1, 2}, {1, 4}},
    {ScalarOp::kMaximum, {3, 2}, {4, 4}, {1, 2}, {1, 4}},
    {ScalarOp::kMinimum, {3, 2}, {4, 4}, {1, 2}, {1, 4}},
    {ScalarOp::kClamp, {2, 2, true}, {2, 4, true}, {2, 2}, {2, 4}},
    {ScalarOp::kSelect, {5, 1}, {5, 1}, {3, 2}, {3, 4}},
    {ScalarOp::kDivide, {10, 2}, {21, 4}, {10, 2}, {21, 4}},
    {ScalarOp::kRemainder, {133, 2}, {300, 4}, {133, 2}, {300, 4}},
    {ScalarOp::kPower, {312, 1}, {325, 1}, {312, 1}, {325, 1}},
    {ScalarOp::kAtan2, {272, 2}, {578, 4}, {272, 2}, {578, 4}},
    {ScalarOp::kEq, {14, 4}, {9, 4}, {1, 2}, {1, 4}},
    {ScalarOp::kNe, {20, 4}, {11, 4}, {1, 2}, {1, 4}},
    {ScalarOp::kLt, {14, 4}, {9, 4}, {1, 2}, {1, 4}},
    {ScalarOp::kLe, {14, 4}, {9, 4}, {1, 2}, {1, 4}},
    {ScalarOp::kGt, {14, 4}, {9, 4}, {1, 2}, {1, 4}},
    {ScalarOp::kGe, {14, 4}, {9, 4}, {1, 2}, {1, 4}},
    {ScalarOp::kTotalLt, {28, 4}, {18, 4}, {3, 2}, {3, 4}},        // (m) two comparisons
    {ScalarOp::kReducePrecision, {6, 2}, {6, 4}, {4, 2}, {4, 4}},  // (m)
    {ScalarOp::kFma, {4, 2}, {4, 4}, {1, 2}, {1, 4}},              // (m) an add with one more load
    {ScalarOp::kNextAfter, {15, 1}, {15, 1}, {12, 1}, {12, 1}},    // (m) on the bits, one element at a time
};
// The functions of hlo/codelets/scalar.hpp in place of the library's, for angles below 1e5: 2 for the
// quarter, 3 for the angle within it, 1, 5 and 4 for its square and both polynomials, 4 to compare the angle,
// 7 to choose by the quarter; 13 in place of these 7 to choose, negate and divide for a tangent. f16 is
// converted before and after. A vertex has the loads, the store and the control of its loop as well.
constexpr OperationCost kTurns[] = {
    {ScalarOp::kSin, {30, 1}, {32, 1}, {26, 1}, {28, 1}},
    {ScalarOp::kCos, {30, 1}, {32, 1}, {26, 1}, {28, 1}},
    {ScalarOp::kTan, {36, 1}, {38, 1}, {32, 1}, {34, 1}},
};
// What computes nothing; conversions have a cost of their own (CastLoop).
constexpr ScalarOp kMoves[] = {ScalarOp::kReal, ScalarOp::kImag, ScalarOp::kComplex, ScalarOp::kBitcast,
                               ScalarOp::kConvert};
constexpr OperationCost kMoveCost = {ScalarOp::kBitcast, {5, 2}, {5, 4}, {1, 2}, {1, 4}};

constexpr bool HasCost(ScalarOp op) {
  for (const OperationCost& row : kFloatCosts)
    if (row.op == op) return true;
  for (const ScalarOp move : kMoves)
    if (move == op) return true;
  const unsigned kinds = hlo::ScalarRow(op).kinds;
  return kinds != 0 && (kinds & (hlo::kFloats | hlo::kComplexes)) == 0;  // of integers: IntegerCost
}
constexpr bool AllHaveCosts() {
  for (const hlo::ScalarOpRow& row : hlo::scalar_ops::kTable)
    if (!HasCost(row.op)) return false;
  return true;
}
static_assert(AllHaveCosts(), "each scalar operation of floats has a row in kFloatCosts, or is in kMoves");

// Rows of tables that differ from the first one.
struct OtherCost {
  ScalarOp op;
  LoopCost f32, f16;
};
// With a scalar operand (broadcastOpPerfInfo; broadcastArithmetic1DCycleEstimate adds 1 to the natural
// loops).
constexpr OtherCost kBroadcastCosts[] = {
    {ScalarOp::kAdd, {2, 2}, {2, 4}},          {ScalarOp::kSubtract, {2, 2}, {2, 4}},
    {ScalarOp::kMultiply, {2, 2}, {2, 4}},     {ScalarOp::kMaximum, {3, 2}, {3, 4}},
    {ScalarOp::kMinimum, {3, 2}, {3, 4}},      {ScalarOp::kDivide, {6, 2}, {8, 2}},
    {ScalarOp::kRemainder, {93, 2}, {225, 4}}, {ScalarOp::kEq, {12, 4}, {8, 4}},
    {ScalarOp::kNe, {18, 4}, {10, 4}},         {ScalarOp::kLt, {12, 4}, {8, 4}},
    {ScalarOp::kLe, {12, 4}, {8, 4}},          {ScalarOp::kGt, {12, 4}, {8, 4}},
    {ScalarOp::kGe, {12, 4}, {8, 4}},
};
// In place (unaryOpInPlacePerfInfo, binaryOpInPlacePerfInfo).
constexpr OtherCost kInPlaceCosts[] = {
    {ScalarOp::kAbs, {5, 2, true}, {5, 4, true}},
    {ScalarOp::kLog, {14, 2}, {6, 4}},
    {ScalarOp::kNegate, {3, 2}, {3, 4}},
    {ScalarOp::kTanh, {10, 2}, {2, 4}},
    {ScalarOp::kLogistic, {10, 2}, {4, 4}},
    {ScalarOp::kTrunc, {4, 2}, {11, 4}},
    {ScalarOp::kMaximum, {4, 2}, {4, 4}},
    {ScalarOp::kMinimum, {4, 2}, {4, 4}},
    {ScalarOp::kLog1p, {22, 2, true}, {21, 4, true}},
};

// Integers and predicates: one element in each iteration of a C++ codelet, with its loads and stores; with a
// scalar one load less.
LoopCost IntegerCost(ScalarOp op, bool scalar, bool in_place) {
  switch (op) {
    case ScalarOp::kDivide:
      return {277, 1};
    case ScalarOp::kRemainder:
      return {scalar ? 280 : 292, 1};
    case ScalarOp::kPower:
      return {scalar ? 23 : in_place ? 34 : 32, 1};
    case ScalarOp::kNot:
      return {5, 2, true};
    case ScalarOp::kAbs:
    case ScalarOp::kNegate:
      return {6, 1};
    case ScalarOp::kSign:
      return {9, 1};
    case ScalarOp::kPopcnt:
    case ScalarOp::kClz:
    case ScalarOp::kSelect:
      return {5, 1};
    case ScalarOp::kEq:
    case ScalarOp::kNe:
    case ScalarOp::kLt:
    case ScalarOp::kGt:
      return {scalar ? 16 : 22, 4};
    case ScalarOp::kLe:
    case ScalarOp::kGe:
      return {scalar ? 20 : 26, 4};
    default:
      return {scalar ? 6 : 7, 1};
  }
}
LoopCost PredicateCost(ScalarOp op, bool scalar, bool in_place) {
  switch (op) {
    case ScalarOp::kAnd:
    case ScalarOp::kOr:
    case ScalarOp::kNe:
    case ScalarOp::kXor:
      return {scalar ? 4 : 5, 4};
    case ScalarOp::kEq:
      return {scalar ? 14 : 6, 4};
    case ScalarOp::kNot:
      return in_place ? LoopCost{21, 8, true} : LoopCost{21, 1};
    case ScalarOp::kSelect:
      return {5, 1};
    default:
      return {28, 4};
  }
}

// Returns the cost of types that IPUs compute in software, as a multiple of f32 or s32. These are the model's
// own assumptions: two words for 64-bit integers, emulated arithmetic for f64, several real operations for
// complex types, and conversions before and after for bf16 and the 8-bit floats.
int SoftwareMultiple(DType type) {
  switch (type) {
    case DType::kF64:
      return 25;
    case DType::kC64:
      return 4;
    case DType::kC128:
      return 100;
    case DType::kS64:
    case DType::kU64:
      return 3;
    case DType::kBF16:
      return 2;
    default:
      return IsFloat(type) && SizeOf(type) == 1 ? 2 : 1;
  }
}

bool IsHalf(DType type) { return type == DType::kF16; }

const OperationCost& RowOf(const Instruction& i) {
  for (const OperationCost& row : kTurns)
    if (row.op == i.op && i.immediate != kOfPopLibs) return row;
  for (const OperationCost& row : kFloatCosts)
    if (row.op == i.op) return row;
  return kMoveCost;
}

// PopLibs castWorkerCycles (lib/popops/PerformanceEstimation.cpp): conversions between floats use vectors, as
// wide as two loads and one store of 64 bits allow; others take one element at a time.
LoopCost CastLoop(const TargetModel& target, DType from, DType to) {
  if (!InFloatUnit(from) || !InFloatUnit(to))
    return {2 * std::max(SoftwareMultiple(from), SoftwareMultiple(to)), 1};
  const int load = static_cast<int>(target.VectorWidth(from)),
            store = static_cast<int>(target.VectorWidth(to));
  const int vector = std::min(2 * load, store);
  const int cycles = std::max(vector / std::min(vector, load), vector / std::min(vector, store));
  return {cycles * std::max(SoftwareMultiple(from), SoftwareMultiple(to)), vector};
}

// A pipelined loop over four elements at a time, and the code for what is left.
struct PipelinedCast {
  std::int64_t start, fill, cycles, rest[4];
  std::int64_t Of(std::int64_t elements) const {
    const std::int64_t loops = elements / 4;
    return start + (loops > 0 ? fill + (loops - 1) * cycles : 0) + rest[elements % 4];
  }
};

std::int64_t CastWorker(const TargetModel& target, DType from, DType to, std::int64_t share) {
  if (to == DType::kS64 || to == DType::kU64) return 3 + share * (IsSigned(from) ? 5 : 4);
  if (from == DType::kU8 && to == DType::kF16) return PipelinedCast{4, 14, 9, {2, 12, 14, 22}}.Of(share);
  if (from == DType::kF16 && (to == DType::kU8 || to == DType::kS8))
    return PipelinedCast{4 + 4, 19, 16, {2, 14, 21, 29}}.Of(share);
  const LoopCost loop = CastLoop(target, from, to);
  std::int64_t cycles = 19 + loop.cycles * (share / loop.elements);
  // Each power of two below the vector's width is tested for, converted and stored.
  const std::int64_t rest = share % loop.elements;
  for (int part = 1; part < loop.elements; part *= 2) cycles += (rest & part) != 0 ? 3 : 1;
  return cycles;
}

}  // namespace

bool InFloatUnit(DType type) { return !IsInteger(type) && type != DType::kPred; }

LoopCost LoopAlone(const Instruction& i, bool scalar, bool in_place) {
  const DType type = i.operand_type;
  LoopCost cost{5, 1};
  if (IsInteger(type)) {
    cost = IntegerCost(i.op, scalar, in_place);
  } else if (type == DType::kPred) {
    cost = PredicateCost(i.op, scalar, in_place);
  } else {
    const OperationCost& row = RowOf(i);
    cost = IsHalf(type) ? row.f16 : row.f32;
    for (const OtherCost& other : kInPlaceCosts)
      if (in_place && other.op == i.op) cost = IsHalf(type) ? other.f16 : other.f32;
    for (const OtherCost& other : kBroadcastCosts)
      if (scalar && other.op == i.op) cost = IsHalf(type) ? other.f16 : other.f32;
  }
  cost.cycles *= SoftwareMultiple(type);
  return cost;
}

bool HasOwnCodelet(const Instruction& i) {
  return InFloatUnit(i.operand_type) && i.immediate != kOfPopLibs &&
         std::any_of(std::begin(kTurns), std::end(kTurns),
                     [&](const OperationCost& row) { return row.op == i.op; });
}

double UnitCycles(const TargetModel& target, const Instruction& i, int width) {
  const DType type = i.operand_type;
  if (i.op == ScalarOp::kConvert) {
    const LoopCost cast = CastLoop(target, type, i.result_type);
    return static_cast<double>(CeilDivide(width, cast.elements) * cast.cycles);
  }
  if (!InFloatUnit(type)) {
    // One instruction for each element, and what the functions in software take beyond their loads and
    // stores.
    const LoopCost alone = type == DType::kPred ? LoopCost{1, 4} : IntegerCost(i.op, false, false);
    const int cycles = alone.cycles > 30 ? alone.cycles - 6 : 1;
    return static_cast<double>(width * cycles * SoftwareMultiple(type));
  }
  const OperationCost& row = RowOf(i);
  const LoopCost unit = IsHalf(type) ? row.f16_unit : row.f32_unit;
  return static_cast<double>(CeilDivide(width, unit.elements) * unit.cycles * SoftwareMultiple(type));
}

double ArithmeticCycles(const TargetModel& target, const Instruction& i, int width) {
  const double cycles = UnitCycles(target, i, width);
  if (i.op == ScalarOp::kConvert || !InFloatUnit(i.operand_type)) return cycles;
  const OperationCost& row = RowOf(i);
  const LoopCost &unit = IsHalf(i.operand_type) ? row.f16_unit : row.f32_unit,
                 &alone = IsHalf(i.operand_type) ? row.f16 : row.f32;
  if (unit.cycles != alone.cycles || unit.elements != alone.elements) return cycles;
  const int moves = static_cast<int>(OperandsOf(i.op)) + 1;
  return cycles - CeilDivide(width, unit.elements) * std::min(moves, unit.cycles - 1);
}

double DivisionCycles(const Instruction& i, const hlo::ConstantDivision& division, int width) {
  // Four products of halves, the sums and what takes them apart; narrow types have the whole product.
  constexpr int kUpperHalf = 14, kNarrowProduct = 1, kMagnitude = 1, kSign = 3, kProductAndDifference = 2;
  const bool wide = division.bits >= 32;
  int instructions = 0;
  if (division.multiplier != 0) instructions += (wide ? kUpperHalf : kNarrowProduct) + division.increments;
  if (division.shift > 0 || !wide) ++instructions;
  if (division.isSigned) instructions += kMagnitude + kSign;
  if (i.op == ScalarOp::kRemainder) instructions += kProductAndDifference;
  return static_cast<double>(width * instructions * SoftwareMultiple(i.operand_type));
}

std::uint64_t CastCycles(const TargetModel& target, DType from, DType to, std::int64_t elements) {
  const std::int64_t workers = target.worker_contexts;
  return static_cast<std::uint64_t>(
      12 + workers * (CastWorker(target, from, to, CeilDivide(elements, workers)) + 18));
}

}  // namespace ipu_model
