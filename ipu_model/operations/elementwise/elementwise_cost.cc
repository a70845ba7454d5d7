#include "operations/elementwise/elementwise_cost.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "hlo/Cost.hpp"
#include "kernels/host/integer_division.h"
#include "operations/elementwise/elementwise_output.h"

namespace ipu_model {
namespace {

// Worker cycles of one loop iteration, and the number of elements it handles.
struct LoopCost {
  int cycles, elements;
};
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
    {ScalarOp::kSign, {9, 2}, {9, 4}, {5, 2}, {5, 4}},
    {ScalarOp::kCeil, {6, 2}, {6, 4}, {2, 2}, {2, 4}},
    {ScalarOp::kFloor, {6, 2}, {6, 4}, {2, 2}, {2, 4}},
    {ScalarOp::kTrunc, {3, 2}, {11, 4}, {2, 2}, {10, 4}},
    {ScalarOp::kRoundNearestEven, {6, 2}, {6, 4}, {2, 2}, {2, 4}},
    {ScalarOp::kRoundNearestAfz, {6, 2}, {6, 4}, {2, 2}, {2, 4}},
    {ScalarOp::kExp, {6, 2}, {4, 4}, {6, 2}, {4, 4}},
    {ScalarOp::kExpm1, {8, 1}, {9, 4}, {4, 1}, {5, 4}},
    {ScalarOp::kLog, {12, 2}, {4, 4}, {12, 2}, {4, 4}},
    {ScalarOp::kLog1p, {22, 2}, {22, 4}, {18, 2}, {18, 4}},
    {ScalarOp::kTanh, {12, 2}, {4, 4}, {10, 2}, {2, 4}},
    {ScalarOp::kLogistic, {12, 2}, {6, 4}, {10, 2}, {4, 4}},
    {ScalarOp::kSqrt, {10, 2}, {23, 4}, {10, 2}, {23, 4}},
    {ScalarOp::kRsqrt, {8, 2}, {19, 4}, {8, 2}, {19, 4}},
    {ScalarOp::kInverse, {6, 2}, {15, 4}, {6, 2}, {15, 4}},
    {ScalarOp::kCbrt, {31, 2}, {21, 4}, {27, 2}, {17, 4}},
    {ScalarOp::kErf, {41, 1}, {13, 1}, {41, 1}, {13, 1}},
    {ScalarOp::kSin, {2304, 1}, {25, 1}, {2300, 1}, {25, 1}},
    {ScalarOp::kCos, {2304, 1}, {25, 1}, {2300, 1}, {25, 1}},
    {ScalarOp::kTan, {5100, 1}, {5700, 1}, {5100, 1}, {5700, 1}},
    {ScalarOp::kIsFinite, {9, 2}, {9, 4}, {5, 2}, {5, 4}},
    {ScalarOp::kAdd, {3, 2}, {3, 4}, {1, 2}, {1, 4}},
    {ScalarOp::kSubtract, {3, 2}, {3, 4}, {1, 2}, {1, 4}},
    {ScalarOp::kMultiply, {3, 2}, {3, 4}, {1, 2}, {1, 4}},
    {ScalarOp::kMaximum, {3, 2}, {4, 4}, {1, 2}, {1, 4}},
    {ScalarOp::kMinimum, {3, 2}, {4, 4}, {1, 2}, {1, 4}},
    {ScalarOp::kClamp, {2, 2}, {2, 4}, {2, 2}, {2, 4}},
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
};
constexpr OperationCost kOtherFloat = {ScalarOp::kBitcast, {5, 2}, {5, 4}, {1, 2}, {1, 4}};  // moves

// With a scalar operand (broadcastOpPerfInfo; broadcastArithmetic1DCycleEstimate adds 1 to the natural
// loops).
struct BroadcastCost {
  ScalarOp op;
  LoopCost f32, f16;
};
constexpr BroadcastCost kBroadcastCosts[] = {
    {ScalarOp::kAdd, {2, 2}, {2, 4}},          {ScalarOp::kSubtract, {2, 2}, {2, 4}},
    {ScalarOp::kMultiply, {2, 2}, {2, 4}},     {ScalarOp::kMaximum, {3, 2}, {3, 4}},
    {ScalarOp::kMinimum, {3, 2}, {3, 4}},      {ScalarOp::kDivide, {6, 2}, {8, 2}},
    {ScalarOp::kRemainder, {93, 2}, {225, 4}}, {ScalarOp::kEq, {12, 4}, {8, 4}},
    {ScalarOp::kNe, {18, 4}, {10, 4}},         {ScalarOp::kLt, {12, 4}, {8, 4}},
    {ScalarOp::kLe, {12, 4}, {8, 4}},          {ScalarOp::kGt, {12, 4}, {8, 4}},
    {ScalarOp::kGe, {12, 4}, {8, 4}},
};

// Integers and predicates: one element in each iteration of a C++ codelet, with its loads and stores.
LoopCost IntegerCost(ScalarOp op) {
  switch (op) {
    case ScalarOp::kDivide:
      return {277, 1};
    case ScalarOp::kRemainder:
      return {292, 1};
    case ScalarOp::kPower:
      return {32, 1};
    case ScalarOp::kNot:
      return {5, 2};
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
      return {22, 4};
    case ScalarOp::kLe:
    case ScalarOp::kGe:
      return {26, 4};
    default:
      return {7, 1};
  }
}
LoopCost PredicateCost(ScalarOp op) {
  switch (op) {
    case ScalarOp::kAnd:
    case ScalarOp::kOr:
    case ScalarOp::kNe:
    case ScalarOp::kXor:
      return {5, 4};
    case ScalarOp::kEq:
      return {6, 4};
    case ScalarOp::kNot:
      return {21, 1};
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

bool InFloatUnit(DType type) { return !IsInteger(type) && type != DType::kPred; }
bool IsHalf(DType type) { return type == DType::kF16; }

const OperationCost& RowOf(ScalarOp op) {
  for (const OperationCost& row : kFloatCosts) {
    if (row.op == op) return row;
  }
  return kOtherFloat;
}

// A vertex with this operation alone. `scalar`: one operand of two is the same for all elements.
LoopCost AloneCost(const Instruction& i, bool scalar) {
  const DType type = i.operand_type;
  LoopCost cost{5, 1};
  if (IsInteger(type)) {
    cost = IntegerCost(i.op);
  } else if (type == DType::kPred) {
    cost = PredicateCost(i.op);
  } else {
    const OperationCost& row = RowOf(i.op);
    cost = IsHalf(type) ? row.f16 : row.f32;
    for (const BroadcastCost& broadcast : kBroadcastCosts) {
      if (scalar && broadcast.op == i.op) cost = IsHalf(type) ? broadcast.f16 : broadcast.f32;
    }
  }
  cost.cycles *= SoftwareMultiple(type);
  return cost;
}

// PopLibs castWorkerCycles (lib/popops/PerformanceEstimation.cpp): conversions between floats use vectors, as
// wide as two loads and one store of 64 bits allow; others take one element at a time.
LoopCost CastCost(const TargetModel& target, DType from, DType to) {
  if (!InFloatUnit(from) || !InFloatUnit(to))
    return {2 * std::max(SoftwareMultiple(from), SoftwareMultiple(to)), 1};
  const int load = static_cast<int>(target.VectorWidth(from)),
            store = static_cast<int>(target.VectorWidth(to));
  const int vector = std::min(2 * load, store);
  const int cycles = std::max(vector / std::min(vector, load), vector / std::min(vector, store));
  return {cycles * std::max(SoftwareMultiple(from), SoftwareMultiple(to)), vector};
}

// Cycles in the floating-point unit, or beside the loads and stores for other types, for `width` elements.
double UnitCycles(const TargetModel& target, const Instruction& i, int width) {
  const DType type = i.operand_type;
  if (i.op == ScalarOp::kConvert) {
    const LoopCost cast = CastCost(target, type, i.result_type);
    return static_cast<double>(CeilDivide(width, cast.elements) * cast.cycles);
  }
  if (!InFloatUnit(type)) {
    // One instruction for each element, and what the functions in software take beyond their loads and
    // stores.
    const LoopCost alone = type == DType::kPred ? LoopCost{1, 4} : IntegerCost(i.op);
    const int cycles = alone.cycles > 30 ? alone.cycles - 6 : 1;
    return static_cast<double>(width * cycles * SoftwareMultiple(type));
  }
  const OperationCost& row = RowOf(i.op);
  const LoopCost unit = IsHalf(type) ? row.f16_unit : row.f32_unit;
  return static_cast<double>(CeilDivide(width, unit.elements) * unit.cycles * SoftwareMultiple(type));
}

}  // namespace

ElementwiseCost::ElementwiseCost(const Expression& expression, const std::vector<bool>& scalar_inputs,
                                 bool in_place)
    : expression_(expression), in_place_(in_place) {
  const std::size_t inputs = expression.inputs.size(), first = inputs + expression.constants.size();
  scalars_.assign(first, false);
  std::fill(scalars_.begin() + static_cast<std::ptrdiff_t>(inputs), scalars_.end(), true);
  for (std::size_t i = 0; i < std::min(inputs, scalar_inputs.size()); ++i) scalars_[i] = scalar_inputs[i];
  // What only depends on scalars is computed once, before the loop.
  uniform_ = scalars_;
  for (const Instruction& instruction : expression.code) {
    bool uniform = true;
    for (std::size_t k = 0; k < OperandCount(instruction.op); ++k)
      uniform = uniform && uniform_[instruction.operand[k]];
    uniform_.push_back(uniform);
  }
  if (expression.code.size() != 1) return;
  const Instruction& only = expression.code[0];
  const bool codelet = only.op == ScalarOp::kAdd || only.op == ScalarOp::kMultiply ||
                       only.op == ScalarOp::kMaximum || only.op == ScalarOp::kMinimum;
  if (codelet && (only.operand_type == DType::kF32 || only.operand_type == DType::kF16))
    vector_type_ = only.operand_type;
}

std::size_t ElementwiseCost::OperandCount(ScalarOp op) {
  if (op == ScalarOp::kSelect || op == ScalarOp::kClamp || op == ScalarOp::kFma) return 3;
  return op >= ScalarOp::kAdd ? 2 : 1;
}

ElementwiseCost::Worker ElementwiseCost::Single(const TargetModel& target) const {
  const Instruction& i = expression_.code[0];
  if (i.op == ScalarOp::kConvert) {
    // getCast1DCycleEstimate: 12 cycles, and 18 + 19 on each worker.
    const LoopCost cast = CastCost(target, i.operand_type, i.result_type);
    return {37, 12, static_cast<double>(cast.cycles), cast.elements};
  }
  const std::size_t operands = OperandCount(i.op);
  const bool scalar = operands == 2 && scalars_[i.operand[0]] != scalars_[i.operand[1]];
  const LoopCost loop = AloneCost(i, scalar);
  const double cycles = loop.cycles;
  const int launch = static_cast<int>(target.supervisor_overhead);
  // Select and Clamp are two-dimensional vertices of one row for each worker.
  if (operands == 3) return {i.op == ScalarOp::kFma ? 29 : 11, 0, cycles, loop.elements};
  // UnaryOp1D, whose workers divide the work, BroadcastScalar1D and BinaryOp1D, and their forms in place.
  if (operands == 1)
    return {in_place_ ? 55 : i.op == ScalarOp::kExp ? 33 : 17, launch + 9, cycles, loop.elements};
  if (scalar) return {20, launch, cycles, loop.elements};
  return {in_place_ ? 58 : i.operand_type == DType::kF32 ? 29 : 26, launch, cycles, loop.elements};
}

// ScaledAddSupervisor, scale times a tensor added to another in place:
// getScaledArithmeticSupervisorCycleEstimate in lib/popops/PerformanceEstimation.cpp.
bool ElementwiseCost::IsScaledAdd() const {
  if (!in_place_ || expression_.code.size() != 2) return false;
  const Instruction &product = expression_.code[0], &sum = expression_.code[1];
  const auto first = static_cast<std::uint16_t>(scalars_.size());
  if (product.op != ScalarOp::kMultiply || (sum.op != ScalarOp::kAdd && sum.op != ScalarOp::kSubtract))
    return false;
  if (product.operand_type != DType::kF32 && product.operand_type != DType::kF16) return false;
  const bool uses = sum.operand[1] == first || (sum.op == ScalarOp::kAdd && sum.operand[0] == first);
  const std::uint16_t other = sum.operand[1] == first ? sum.operand[0] : sum.operand[1];
  return uses && other < first && !scalars_[other] &&
         scalars_[product.operand[0]] != scalars_[product.operand[1]];
}

// A codelet that PopLibs generates for an expression (lib/popops/ExpressionGenerator.cpp): the workers take
// turns at vectors as wide as the widest type allows; each loads the inputs, keeps intermediate values in
// registers and stores the results, while the floating-point unit computes. An operation that has no vector
// form makes the loop one over elements. Two cycles count down and branch, and scalars are loaded before the
// loop.
ElementwiseCost::Worker ElementwiseCost::Generated(const TargetModel& target) const {
  std::size_t widest = 1;
  bool vectors = true;
  const auto type_of = [&](std::size_t reg) { return expression_.TypeOf(static_cast<std::uint16_t>(reg)); };
  for (std::size_t reg = 0; reg < uniform_.size(); ++reg) {
    const DType type = type_of(reg);
    if (type != DType::kPred) widest = std::max(widest, static_cast<std::size_t>(SizeOf(type)));
    if (!uniform_[reg])
      vectors = vectors && (type == DType::kPred || type == DType::kF32 || type == DType::kF16);
  }
  for (const Instruction& i : expression_.code) {
    vectors = vectors && i.op != ScalarOp::kCbrt && i.op != ScalarOp::kErf && i.op != ScalarOp::kIsFinite &&
              i.op != ScalarOp::kSign && i.op != ScalarOp::kNot;
  }
  const int width = vectors ? static_cast<int>(std::max<std::size_t>(1, target.data_path_bytes / widest)) : 1;
  const auto words = [&](DType type) {
    return static_cast<double>(
        CeilDivide(width * static_cast<int>(SizeOf(type)), static_cast<int>(target.data_path_bytes)));
  };
  double moves = 2, unit = 0;
  int pointers = 0;
  for (std::size_t i = 0; i < expression_.inputs.size(); ++i) {
    if (scalars_[i]) continue;
    moves += words(type_of(i));
    ++pointers;
  }
  for (const std::uint16_t output : expression_.outputs) {
    moves += words(type_of(output));
    ++pointers;
  }
  const std::vector<int> fused = FusedProducts();
  double before = 0;
  for (std::size_t k = 0; k < expression_.code.size(); ++k) {
    const Instruction& i = expression_.code[k];
    if (std::find(fused.begin(), fused.end(), static_cast<int>(k)) != fused.end()) continue;
    if (uniform_[scalars_.size() + k]) {
      before += UnitCycles(target, i, 1);
    } else if (InFloatUnit(i.operand_type)) {
      unit += UnitCycles(target, i, width);
    } else {
      moves += UnitCycles(target, i, width);
    }
  }
  // The worker's entry is that of BinaryOp1D, which has three pointers.
  const int entry = 29 + 2 * std::max(0, pointers - 3) + static_cast<int>(before);
  return {entry, static_cast<int>(target.supervisor_overhead), std::max(moves, unit), width};
}

// Returns the products of multiply-adds, which are one instruction with their sum.
std::vector<int> ElementwiseCost::FusedProducts() const {
  const std::size_t first = scalars_.size();
  std::vector<int> uses(uniform_.size(), 0), products;
  for (const Instruction& i : expression_.code)
    for (std::size_t k = 0; k < OperandCount(i.op); ++k) ++uses[i.operand[k]];
  for (const std::uint16_t reg : expression_.outputs) ++uses[reg];
  for (const Instruction& sum : expression_.code) {
    if (sum.op != ScalarOp::kAdd && sum.op != ScalarOp::kSubtract) continue;
    if (sum.operand_type != DType::kF32 && sum.operand_type != DType::kF16) continue;
    for (const std::size_t reg : {sum.operand[0], sum.operand[1]}) {
      if (reg < first || uses[reg] != 1 || uniform_[reg]) continue;
      if (expression_.code[reg - first].op != ScalarOp::kMultiply) continue;
      products.push_back(static_cast<int>(reg - first));
      break;
    }
  }
  return products;
}

std::uint64_t ElementwiseCost::Cycles(const TargetModel& target, std::int64_t elements) const {
  const std::int64_t workers = target.worker_contexts;
  if (IsScaledAdd()) {
    const bool half = IsHalf(expression_.code[0].operand_type);
    const std::int64_t width = half ? 4 : 2, vectors = elements / width / workers, rest = elements % width;
    const std::int64_t subtract = expression_.code[1].op == ScalarOp::kSubtract ? 7 : 0;
    const std::int64_t supervisor =
        21 + target.supervisor_overhead + (rest == 0 ? 7 : 13) + 12 + 6 + subtract;
    const std::int64_t last = rest == 0 ? 0 : !half ? 8 : rest == 1 ? 5 : rest == 2 ? 12 : 18;
    const std::int64_t worker = 15 + (vectors > 0 ? 6 + 3 * (vectors - 1) : 0) + 2 + 1 + last + 1;
    return static_cast<std::uint64_t>(supervisor + workers * worker);
  }
  const std::int64_t share = CeilDivide(elements, workers);
  // A copy is a generated codelet without arithmetic.
  const Worker worker = expression_.code.size() == 1 ? Single(target) : Generated(target);
  const double loops = static_cast<double>(CeilDivide(share, worker.elements));
  return static_cast<std::uint64_t>(
      workers * (worker.entry + static_cast<std::int64_t>(worker.loop_cycles * loops)) + worker.launch);
}

std::uint64_t ElementwiseCost::CodeBytes(const TargetModel& target) const {
  constexpr std::int64_t kEntryInstructions = 24, kInstructionsPerOperation = 10;
  const auto operations = static_cast<std::int64_t>(expression_.code.size());
  return static_cast<std::uint64_t>(kEntryInstructions + kInstructionsPerOperation * operations) *
         target.instruction_bytes;
}

std::uint64_t FillCycles(const TargetModel& target, std::int64_t bytes) {
  // PopLibs _fillCycleEstimate, one worker: a word of the data path in each cycle, 23 cycles around the loop.
  const std::int64_t workers = target.worker_contexts, share = CeilDivide(bytes, workers);
  return static_cast<std::uint64_t>(workers * (23 + share / target.data_path_bytes));
}

// Counting needs an add per element: twice the work of a fill.
std::uint64_t IotaCycles(const TargetModel& target, std::int64_t bytes) {
  return FillCycles(target, 2 * bytes);
}

}  // namespace ipu_model

namespace hlo {

using namespace ipu_model;

std::uint64_t fillCycles(const poplar::Target& target, std::size_t bytes) {
  return FillCycles(target.model(), static_cast<std::int64_t>(bytes));
}
std::uint64_t iotaCycles(const poplar::Target& target, std::size_t bytes) {
  return IotaCycles(target.model(), static_cast<std::int64_t>(bytes));
}

struct MapCost::Data {
  ElementwiseCost cost;
};

MapCost::MapCost(const Expression& expression, const std::vector<unsigned>& outputs,
                 const std::vector<bool>& scalarInputs, bool inPlace) {
  std::vector<unsigned> used;
  const Expression part = SelectOutputs(expression, outputs, &used);
  std::vector<bool> scalars;
  for (const unsigned i : used) scalars.push_back(scalarInputs.at(i));
  data_ = std::make_shared<const Data>(Data{ElementwiseCost(part, scalars, inPlace)});
}

std::uint64_t MapCost::cycles(const poplar::Target& target, std::size_t elements) const {
  return data_->cost.Cycles(target.model(), static_cast<std::int64_t>(elements));
}

}  // namespace hlo
