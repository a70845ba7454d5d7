// What is known of each scalar operation: one row of one table, for the model's kernels and costs, for
// generated codelets and for the bindings. A new operation is an entry at the end of ScalarOp and a row here.
// The cycles of PopLibs' loops stand with their source, in operations/elementwise/operation_cost.cc of the
// model.
#ifndef HLO_SCALAR_OPS_HPP
#define HLO_SCALAR_OPS_HPP

#include <cstddef>
#include <cstdint>

#include "hlo/Expression.hpp"

namespace hlo {

// The type of a result.
enum class ScalarResult : std::uint8_t {
  kOperand,    // that of the operands
  kPredicate,  // kPred
  kReal,       // complex -> real, others as they are
  kComplex,    // real -> complex
  kGiven,      // Instruction::result_type
};

// The types for which codelets have a function of the operation; predicates count as integers.
enum ScalarKinds : unsigned {
  kReals = 1,  // computed in float
  kIntegers = 2,
  kDoubles = 4,    // softDouble.hpp
  kComplexes = 8,  // scalarComplex.hpp
  kOrdered = kReals | kIntegers | kDoubles,
  kAll = kOrdered | kComplexes,
  kFloats = kReals | kDoubles,
  kTakesWidth = 16,  // the function has the width of the type as a template argument
};

enum ScalarTraits : unsigned {
  // The result of f16 and bf16 operands needs no rounding: it is a value of their type, or an exact multiple
  // of its last place.
  kExact = 1,
  kCommutative = 2,
  kComparison = 4,       // equal, not equal, or one of the four orders
  kScalarCodelet = 8,    // codelets that PopLibs generates take one element at a time
  kComplexVectors = 16,  // the host's kernels have vectors of complex numbers for it
};

// How long the host's kernels take for an element.
enum class HostTime : std::uint8_t {
  kArithmetic,
  kDivision,
  kSeries,  // exponentials and logarithms
  kCubeRoot,
  kLong,  // what only f32 has vectors for
};

struct ScalarOpRow {
  ScalarOp op;
  const char* name;  // for Python and in messages
  std::uint8_t operands;
  ScalarResult result;
  // The function of hlo/codelets/scalar.hpp and the types it takes; null if there is none, or the generator
  // of codelets writes the text itself.
  const char* function;
  unsigned kinds;
  unsigned traits = 0;
  HostTime host_time = HostTime::kArithmetic;
  // What it is on predicates, as a logical operation.
  ScalarOp on_predicates = op;
};

namespace scalar_ops {

inline constexpr auto kSame = ScalarResult::kOperand, kTruth = ScalarResult::kPredicate,
                      kRealPart = ScalarResult::kReal, kToComplex = ScalarResult::kComplex,
                      kGiven = ScalarResult::kGiven;
inline constexpr auto kArithmetic = HostTime::kArithmetic, kDivision = HostTime::kDivision,
                      kSeries = HostTime::kSeries, kCubeRoot = HostTime::kCubeRoot, kLong = HostTime::kLong;
inline constexpr unsigned kInFloat = kReals | kComplexes, kAnyFloat = kFloats | kComplexes;

inline constexpr ScalarOpRow kTable[] = {
    {ScalarOp::kAbs, "abs", 1, kRealPart, "abs", kAll, kExact},
    {ScalarOp::kNegate, "negate", 1, kSame, "negate", kAll, kExact | kComplexVectors},
    {ScalarOp::kSign, "sign", 1, kSame, "sign", kAll, kExact | kScalarCodelet},
    {ScalarOp::kNot, "not", 1, kSame, "bitNot", kIntegers, kScalarCodelet},
    {ScalarOp::kPopcnt, "popcnt", 1, kSame, "popcount", kIntegers | kTakesWidth},
    {ScalarOp::kClz, "clz", 1, kSame, "leadingZeros", kIntegers | kTakesWidth},
    {ScalarOp::kCeil, "ceil", 1, kSame, "ceil", kFloats, kExact},
    {ScalarOp::kFloor, "floor", 1, kSame, "floor", kFloats, kExact},
    {ScalarOp::kRoundNearestAfz, "round_nearest_afz", 1, kSame, "roundAway", kFloats, kExact},
    {ScalarOp::kRoundNearestEven, "round_nearest_even", 1, kSame, "roundEven", kFloats, kExact},
    {ScalarOp::kTrunc, "trunc", 1, kSame, "trunc", kFloats, kExact},
    {ScalarOp::kCbrt, "cbrt", 1, kSame, "cbrt", kReals, kScalarCodelet, kCubeRoot},
    {ScalarOp::kCos, "cos", 1, kSame, "cos", kInFloat, 0, kLong},
    {ScalarOp::kSin, "sin", 1, kSame, "sin", kInFloat, 0, kLong},
    {ScalarOp::kTan, "tan", 1, kSame, "tan", kInFloat, 0, kLong},
    {ScalarOp::kTanh, "tanh", 1, kSame, "tanh", kInFloat, 0, kSeries},
    {ScalarOp::kExp, "exp", 1, kSame, "exp", kInFloat, 0, kSeries},
    {ScalarOp::kExpm1, "expm1", 1, kSame, "expm1", kInFloat, 0, kSeries},
    {ScalarOp::kLog, "log", 1, kSame, "log", kInFloat, 0, kSeries},
    {ScalarOp::kLog1p, "log1p", 1, kSame, "log1p", kInFloat, 0, kSeries},
    {ScalarOp::kLogistic, "logistic", 1, kSame, "logistic", kInFloat, 0, kSeries},
    {ScalarOp::kSqrt, "sqrt", 1, kSame, "sqrt", kAnyFloat, 0, kDivision},
    {ScalarOp::kRsqrt, "rsqrt", 1, kSame, "rsqrt", kAnyFloat, 0, kDivision},
    {ScalarOp::kErf, "erf", 1, kSame, "erf", kReals, kScalarCodelet, kSeries},
    {ScalarOp::kSquare, "square", 1, kSame, "square", kAll},
    {ScalarOp::kInverse, "inverse", 1, kSame, "inverse", kAnyFloat, 0, kDivision},
    {ScalarOp::kIsFinite, "is_finite", 1, kTruth, "isFinite", kAnyFloat, kScalarCodelet},
    {ScalarOp::kReal, "real", 1, kRealPart, nullptr, 0, kComplexVectors},
    {ScalarOp::kImag, "imag", 1, kRealPart, nullptr, 0, kComplexVectors},
    {ScalarOp::kConvert, "convert", 1, kGiven, nullptr, 0},
    {ScalarOp::kBitcast, "bitcast", 1, kGiven, nullptr, 0},
    {ScalarOp::kReducePrecision, "reduce_precision", 1, kSame, nullptr, 0},
    {ScalarOp::kAdd, "add", 2, kSame, "add", kAll, kCommutative | kComplexVectors, kArithmetic,
     ScalarOp::kOr},
    {ScalarOp::kSubtract, "subtract", 2, kSame, "subtract", kAll, kComplexVectors},
    {ScalarOp::kMultiply, "multiply", 2, kSame, "multiply", kAll, kCommutative | kComplexVectors, kArithmetic,
     ScalarOp::kAnd},
    {ScalarOp::kDivide, "divide", 2, kSame, "divide", kAll, 0, kDivision},
    {ScalarOp::kRemainder, "remainder", 2, kSame, "remainder", kOrdered, kExact, kLong},
    {ScalarOp::kPower, "power", 2, kSame, "power", kReals | kIntegers, 0, kLong},
    {ScalarOp::kAtan2, "atan2", 2, kSame, "atan2", kReals, 0, kLong},
    {ScalarOp::kMaximum, "maximum", 2, kSame, "maximum", kOrdered, kExact | kCommutative, kArithmetic,
     ScalarOp::kOr},
    {ScalarOp::kMinimum, "minimum", 2, kSame, "minimum", kOrdered, kExact | kCommutative, kArithmetic,
     ScalarOp::kAnd},
    {ScalarOp::kAnd, "and", 2, kSame, "bitAnd", kIntegers, kCommutative},
    {ScalarOp::kOr, "or", 2, kSame, "bitOr", kIntegers, kCommutative},
    {ScalarOp::kXor, "xor", 2, kSame, "bitXor", kIntegers, kCommutative},
    {ScalarOp::kShiftLeft, "shift_left", 2, kSame, "shiftLeft", kIntegers | kTakesWidth},
    {ScalarOp::kShiftRightLogical, "shift_right_logical", 2, kSame, "shiftRightLogical",
     kIntegers | kTakesWidth},
    {ScalarOp::kShiftRightArithmetic, "shift_right_arithmetic", 2, kSame, "shiftRightArithmetic",
     kIntegers | kTakesWidth},
    {ScalarOp::kEq, "eq", 2, kTruth, "eq", kAll, kComparison | kCommutative},
    {ScalarOp::kNe, "ne", 2, kTruth, "ne", kAll, kComparison | kCommutative},
    {ScalarOp::kLt, "lt", 2, kTruth, "lt", kOrdered, kComparison},
    {ScalarOp::kLe, "le", 2, kTruth, "le", kOrdered, kComparison},
    {ScalarOp::kGt, "gt", 2, kTruth, "gt", kOrdered, kComparison},
    {ScalarOp::kGe, "ge", 2, kTruth, "ge", kOrdered, kComparison},
    {ScalarOp::kTotalLt, "total_lt", 2, kTruth, "totalLt", kOrdered},
    {ScalarOp::kComplex, "complex", 2, kToComplex, nullptr, 0},
    {ScalarOp::kNextAfter, "next_after", 2, kSame, nullptr, 0, kExact},
    {ScalarOp::kSelect, "select", 3, kSame, "select", kAll, kExact | kComplexVectors},
    {ScalarOp::kClamp, "clamp", 3, kSame, "clamp", kOrdered, kExact},
    {ScalarOp::kFma, "fma", 3, kSame, "fma", kReals | kIntegers},
};

inline constexpr std::size_t kRows = sizeof(kTable) / sizeof(kTable[0]);

constexpr bool InOrder() {
  for (std::size_t i = 0; i < kRows; ++i)
    if (kTable[i].op != static_cast<ScalarOp>(i)) return false;
  return kRows == static_cast<std::size_t>(ScalarOp::kCount);
}
static_assert(InOrder(), "one row for each operation, in the order of ScalarOp");

}  // namespace scalar_ops

// The row of an operation. Executables may be damaged: a number that is no operation has a row that no type
// fits.
constexpr ScalarOpRow ScalarRow(ScalarOp op) {
  const auto number = static_cast<std::size_t>(op);
  if (number < scalar_ops::kRows) return scalar_ops::kTable[number];
  return {op, "unknown", 3, ScalarResult::kOperand, nullptr, 0};
}

constexpr std::size_t OperandsOf(ScalarOp op) { return ScalarRow(op).operands; }
constexpr bool HasTrait(ScalarOp op, ScalarTraits trait) { return (ScalarRow(op).traits & trait) != 0; }

}  // namespace hlo

#endif  // HLO_SCALAR_OPS_HPP
