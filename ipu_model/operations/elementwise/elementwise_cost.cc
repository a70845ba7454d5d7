#include "operations/elementwise/elementwise_cost.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace ipu_model {
namespace {

// Worker cycles of one loop iteration, and the number of elements it handles.
struct LoopCost {
  double cycles;
  int elements;
};
struct OperationCost {
  ScalarOp op;
  LoopCost f32, f16;
};

// From PopLibs lib/popops/popopsCycleEstimators.cpp. A "natural" loop of c cycles per vector is listed as
// c + 2; the 2 cycles are the overhead of the assembly codelets. Rows marked (m) are the model's own
// estimates: PopLibs has no such operation, so the nearest one is used.
constexpr OperationCost kFloatCosts[] = {
    {ScalarOp::kAbs, {2, 2}, {2, 4}},
    {ScalarOp::kNegate, {2, 2}, {2, 4}},
    {ScalarOp::kSquare, {2, 2}, {2, 4}},
    {ScalarOp::kSign, {11, 2}, {5, 4}},
    {ScalarOp::kCeil, {3, 2}, {3, 4}},
    {ScalarOp::kFloor, {3, 2}, {3, 4}},
    {ScalarOp::kTrunc, {3, 2}, {3, 4}},
    {ScalarOp::kRoundNearestEven, {3, 2}, {3, 4}},
    {ScalarOp::kRoundNearestAfz, {6, 2}, {6, 4}},  // (m)
    {ScalarOp::kExp, {6, 2}, {4, 4}},
    {ScalarOp::kExpm1, {8, 2}, {6, 4}},
    {ScalarOp::kLog, {12, 2}, {4, 4}},
    {ScalarOp::kLog1p, {14, 2}, {8, 4}},
    {ScalarOp::kTanh, {12, 2}, {4, 4}},
    {ScalarOp::kLogistic, {12, 2}, {6, 4}},
    {ScalarOp::kSqrt, {10, 2}, {23, 4}},
    {ScalarOp::kRsqrt, {8, 2}, {19, 4}},
    {ScalarOp::kInverse, {10, 2}, {21, 4}},
    {ScalarOp::kCbrt, {36, 1}, {18, 1}},  // (m) exp and log
    {ScalarOp::kErf, {41, 1}, {13, 1}},
    {ScalarOp::kSin, {2300, 1}, {25, 1}},
    {ScalarOp::kCos, {2300, 1}, {25, 1}},
    {ScalarOp::kTan, {5100, 1}, {60, 1}},
    {ScalarOp::kIsFinite, {7, 2}, {7, 4}},
    {ScalarOp::kAdd, {3, 2}, {3, 4}},
    {ScalarOp::kSubtract, {3, 2}, {3, 4}},
    {ScalarOp::kMultiply, {3, 2}, {3, 4}},
    {ScalarOp::kMaximum, {3, 2}, {4, 4}},
    {ScalarOp::kMinimum, {3, 2}, {4, 4}},
    {ScalarOp::kClamp, {6, 2}, {8, 4}},
    {ScalarOp::kSelect, {5, 1}, {5, 1}},
    {ScalarOp::kDivide, {10, 2}, {21, 4}},
    {ScalarOp::kRemainder, {133, 2}, {150, 4}},
    {ScalarOp::kPower, {312, 1}, {325, 1}},
    {ScalarOp::kAtan2, {272, 2}, {578, 4}},
    {ScalarOp::kConvert, {3, 2}, {3, 4}},
    {ScalarOp::kReducePrecision, {6, 2}, {6, 4}},  // (m)
    {ScalarOp::kFma, {4, 2}, {4, 4}},              // (m) an add with one more load
};
constexpr LoopCost kFloatScaledAdd = {3, 2}, kHalfScaledAdd = {3, 4};  // scaledAdd: the load of an add
constexpr LoopCost kFloatOther = {5, 2};                               // comparisons and moves
constexpr LoopCost kInteger = {7, 1};  // add, multiply, bits, shifts, comparisons of 32-bit integers
constexpr LoopCost kIntegerDivide = {277, 1};
constexpr LoopCost kIntegerRemainder = {292, 1};
constexpr LoopCost kIntegerPower = {224, 1};  // (m) 32 squarings
constexpr LoopCost kPredicate = {7, 4};

// Returns the cost of types that IPUs compute in software, as a multiple of f32 or s32. These are the model's
// own assumptions: two words for 64-bit integers, emulated arithmetic for f64, several real operations for
// complex types, and conversions before and after for bf16 and the 8-bit floats.
double SoftwareMultiple(DType type) {
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

LoopCost CostOf(ScalarOp op, DType type) {
  LoopCost cost = kFloatOther;
  if (IsInteger(type)) {
    cost = op == ScalarOp::kDivide      ? kIntegerDivide
           : op == ScalarOp::kRemainder ? kIntegerRemainder
           : op == ScalarOp::kPower     ? kIntegerPower
                                        : kInteger;
  } else if (type == DType::kPred) {
    cost = kPredicate;
  } else {
    for (const OperationCost& row : kFloatCosts)
      if (row.op == op) cost = SizeOf(type) <= 2 && type != DType::kBF16 ? row.f16 : row.f32;
  }
  cost.cycles *= SoftwareMultiple(type);
  return cost;
}

// Returns the instruction that computes the product of the multiply-add whose sum is `sum` (a * b + c or
// c - a * b), or -1. The codelet keeps such a product in a register, so it needs no load or store.
int FusedProduct(const Expression& expression, const std::vector<int>& uses, const Instruction& sum) {
  if (sum.op != ScalarOp::kAdd && sum.op != ScalarOp::kSubtract) return -1;
  if (sum.operand_type != DType::kF32 && sum.operand_type != DType::kF16) return -1;
  const std::size_t first = expression.inputs.size() + expression.constants.size();
  for (const std::size_t reg : {sum.operand[0], sum.operand[1]}) {
    if (reg >= first && uses[reg] == 1 && expression.code[reg - first].op == ScalarOp::kMultiply)
      return static_cast<int>(reg - first);
  }
  return -1;
}

LoopCost MultiplyAddCost(const Expression& expression, const Instruction& product) {
  const std::size_t inputs = expression.inputs.size(), constants = expression.constants.size();
  for (const std::size_t reg : {product.operand[0], product.operand[1]}) {
    if (reg >= inputs && reg < inputs + constants)
      return product.operand_type == DType::kF16 ? kHalfScaledAdd : kFloatScaledAdd;
  }
  return CostOf(ScalarOp::kFma, product.operand_type);
}

// In 1-D unary vertices, the workers divide the work themselves.
constexpr std::uint64_t kWorkDivisionCycles = 9;

}  // namespace

ElementwiseCost::ElementwiseCost(const Expression& expression) {
  const std::size_t first = expression.inputs.size() + expression.constants.size();
  std::vector<int> uses(first + expression.code.size(), 0);
  for (const Instruction& instruction : expression.code)
    for (const std::uint16_t reg : instruction.operand) ++uses[reg];
  for (const std::uint16_t reg : expression.outputs) ++uses[reg];

  std::vector<LoopCost> costs;
  for (const Instruction& instruction : expression.code) {
    costs.push_back(CostOf(instruction.op, instruction.operand_type));
    const int product = FusedProduct(expression, uses, instruction);
    if (product < 0) continue;
    costs.back() = MultiplyAddCost(expression, expression.code[static_cast<std::size_t>(product)]);
    costs[static_cast<std::size_t>(product)].cycles = 0;
  }
  for (const LoopCost& cost : costs) {
    const int group = cost.elements == 1 ? 0 : cost.elements == 2 ? 1 : cost.elements == 4 ? 2 : 3;
    cycles_[static_cast<std::size_t>(group)] += cost.cycles;
    ++operations_;
  }
  if (expression.code.empty()) cycles_[1] += 2;  // a copy
  if (expression.code.size() == 1) {
    const Instruction& only = expression.code[0];
    const bool codelet = only.op == ScalarOp::kAdd || only.op == ScalarOp::kMultiply ||
                         only.op == ScalarOp::kMaximum || only.op == ScalarOp::kMinimum;
    if (codelet && (only.operand_type == DType::kF32 || only.operand_type == DType::kF16))
      vector_type_ = only.operand_type;
  }
}

std::uint64_t ElementwiseCost::Cycles(const TargetModel& target, std::int64_t elements) const {
  const std::int64_t workers = target.worker_contexts, share = (elements + workers - 1) / workers;
  double cycles = 0;
  for (int group = 0; group < 4; ++group) {
    const std::int64_t loops = (share + (std::int64_t{1} << group) - 1) >> group;
    cycles += cycles_[static_cast<std::size_t>(group)] * static_cast<double>(loops);
  }
  return static_cast<std::uint64_t>(std::llround(cycles)) * target.worker_contexts +
         target.vertex_call_cycles + target.supervisor_overhead + kWorkDivisionCycles;
}

std::uint64_t ElementwiseCost::CodeBytes(const TargetModel& target) const {
  constexpr std::int64_t kEntryInstructions = 24, kInstructionsPerOperation = 10;
  return static_cast<std::uint64_t>(kEntryInstructions + kInstructionsPerOperation * operations_) *
         target.instruction_bytes;
}

std::uint64_t FillCycles(const TargetModel& target, std::int64_t bytes) {
  const std::int64_t workers = target.worker_contexts, words = bytes / target.data_path_bytes + 1;
  return static_cast<std::uint64_t>((words / workers + 1 + 15) * workers) + target.vertex_call_cycles +
         target.supervisor_overhead;
}

}  // namespace ipu_model
