#include "operations/elementwise/elementwise_cost.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "hlo/Cost.hpp"
#include "hlo/ScalarOps.hpp"
#include "kernels/host/integer_division.h"
#include "operations/elementwise/broadcast_cost.h"
#include "operations/elementwise/elementwise_output.h"
#include "operations/elementwise/scaled_arithmetic_cost.h"
#include "operations/elementwise/ternary_cost.h"

namespace ipu_model {

ElementwiseCost::ElementwiseCost(const Expression& expression, const std::vector<bool>& scalar_inputs,
                                 bool in_place, const std::vector<std::vector<bool>>& repeats)
    : expression_(expression), in_place_(in_place) {
  // Most programs have no such input.
  if (std::any_of(repeats.begin(), repeats.end(), [](const std::vector<bool>& input) {
        return std::find(input.begin(), input.end(), true) != input.end();
      }))
    repeats_ = repeats;
  const std::size_t inputs = expression.inputs.size(), first = inputs + expression.constants.size();
  scalars_.assign(first, false);
  std::fill(scalars_.begin() + static_cast<std::ptrdiff_t>(inputs), scalars_.end(), true);
  for (std::size_t i = 0; i < std::min(inputs, scalar_inputs.size()); ++i) scalars_[i] = scalar_inputs[i];
  // What only depends on scalars is computed once, before the loop.
  uniform_ = scalars_;
  for (const Instruction& instruction : expression.code) {
    bool uniform = true;
    for (std::size_t k = 0; k < OperandsOf(instruction.op); ++k)
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

ElementwiseCost::Worker ElementwiseCost::Single(const TargetModel& target, bool scalar) const {
  const Instruction& i = expression_.code[0];
  const std::size_t operands = OperandsOf(i.op);
  const LoopCost loop = LoopAlone(i, scalar && operands == 2, in_place_);
  const int launch = static_cast<int>(target.supervisor_overhead);
  if (operands == 3) return {29, 0, loop};
  // UnaryOp1D, whose workers divide the work, BroadcastScalar1D and BinaryOp1D, and their forms in place.
  if (operands == 1) return {in_place_ ? 55 : i.op == ScalarOp::kExp ? 33 : 17, launch + 9, loop};
  if (scalar) return {20, launch, loop};
  return {in_place_ ? 58 : i.operand_type == DType::kF32 ? 29 : 26, launch, loop};
}

// A codelet that PopLibs generates for an expression (lib/popops/ExpressionGenerator.cpp): the workers take
// turns at vectors as wide as the widest type allows; each loads the inputs, keeps intermediate values in
// registers and stores the results. An operation that has no vector form makes the loop one over elements.
// Scalars are loaded before the loop.
ElementwiseCost::Worker ElementwiseCost::Generated(const TargetModel& target) const {
  std::size_t widest = 1;
  bool vectors = true;
  for (std::size_t reg = 0; reg < uniform_.size(); ++reg) {
    const DType type = expression_.TypeOf(static_cast<std::uint16_t>(reg));
    if (type != DType::kPred) widest = std::max(widest, static_cast<std::size_t>(SizeOf(type)));
    if (!uniform_[reg])
      vectors = vectors && (type == DType::kPred || type == DType::kF32 || type == DType::kF16);
  }
  for (const Instruction& i : expression_.code) vectors = vectors && !HasTrait(i.op, hlo::kScalarCodelet);
  const int width = vectors ? static_cast<int>(std::max<std::size_t>(1, target.data_path_bytes / widest)) : 1;
  double before = 0;
  int pointers = static_cast<int>(expression_.outputs.size());
  for (std::size_t i = 0; i < expression_.inputs.size(); ++i) pointers += scalars_[i] ? 0 : 1;
  for (std::size_t k = 0; k < expression_.code.size(); ++k)
    if (uniform_[scalars_.size() + k]) before += UnitCycles(target, expression_.code[k], 1);
  // An instruction counts down and branches; elements, which are no pointers that move on, have an index.
  const int control = vectors ? 1 : 2;
  // The worker's entry is that of BinaryOp1D, which has three pointers.
  const int entry = 29 + 2 * std::max(0, pointers - 3) + static_cast<int>(before);
  return {entry, static_cast<int>(target.supervisor_overhead), {TripCycles(target, width) + control, width}};
}

// One trip of that loop. A worker issues a load, a store or an operation on integers together with one of the
// floating-point unit, each after what it reads; nothing of the next trip begins before the end, as compilers
// for the IPU do not overlap trips. With one operation these are the cycles that PopLibs adds to those of the
// operation in its own compiled loops (binaryOpInnerLoopCycles, unaryOpInnerLoopCycles), but for the control.
int ElementwiseCost::TripCycles(const TargetModel& target, int width) const {
  double functions = 0;
  double issued = 0, unit = 0;  // when the next load, store or integer and the next other can be issued
  std::vector<double> ready(uniform_.size(), -1);  // when each register is written; -1: not yet
  const auto words = [&](std::size_t reg) {
    const DType type = expression_.TypeOf(static_cast<std::uint16_t>(reg));
    return static_cast<double>(
        CeilDivide(width * static_cast<int>(SizeOf(type)), static_cast<int>(target.data_path_bytes)));
  };
  const auto when = [&](std::size_t reg) {
    if (uniform_[reg]) return 0.0;
    if (ready[reg] < 0) ready[reg] = issued += words(reg);
    return ready[reg];
  };
  const std::vector<int> fused = FusedProducts();
  for (std::size_t k = 0; k < expression_.code.size(); ++k) {
    const Instruction& i = expression_.code[k];
    const std::size_t result = scalars_.size() + k;
    if (uniform_[result]) continue;
    double start = 0;
    for (std::size_t n = 0; n < OperandsOf(i.op); ++n) start = std::max(start, when(i.operand[n]));
    if (std::find(fused.begin(), fused.end(), static_cast<int>(k)) != fused.end()) {
      ready[result] = start;
      continue;
    }
    const auto division = hlo::constantDivisionOf(expression_, i);
    double& pipeline = !division && InFloatUnit(i.operand_type) ? unit : issued;
    pipeline = std::max(start, pipeline) +
               (division ? DivisionCycles(i, *division, width) : ArithmeticCycles(target, i, width));
    ready[result] = pipeline;
    // Functions alone take their whole loop.
    if (&pipeline == &unit) functions += UnitCycles(target, i, width);
  }
  std::vector<std::uint16_t> outputs = expression_.outputs;
  for (const std::uint16_t output : outputs) when(output);
  std::sort(outputs.begin(), outputs.end(),
            [&](std::uint16_t a, std::uint16_t b) { return when(a) < when(b); });
  for (const std::uint16_t output : outputs) issued = std::max(issued, when(output)) + words(output);
  return static_cast<int>(std::max({issued, unit, functions}));
}

// Returns the products of multiply-adds, which are one instruction with their sum.
std::vector<int> ElementwiseCost::FusedProducts() const {
  const std::size_t first = scalars_.size();
  std::vector<int> uses(uniform_.size(), 0), products;
  for (const Instruction& i : expression_.code)
    for (std::size_t k = 0; k < OperandsOf(i.op); ++k) ++uses[i.operand[k]];
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
  const bool alone = expression_.code.size() == 1;
  const Instruction* const only = alone ? &expression_.code[0] : nullptr;
  if (alone && only->op == ScalarOp::kConvert)
    return CastCycles(target, only->operand_type, only->result_type, elements);
  if (alone && (only->op == ScalarOp::kSelect || only->op == ScalarOp::kClamp)) {
    const bool scalar[3] = {scalars_[only->operand[0]], scalars_[only->operand[1]],
                            scalars_[only->operand[2]]};
    return TernaryCycles(target, *only, scalar, elements);
  }
  const ScaledForm scaled = in_place_ ? ScaledFormOf(expression_, scalars_) : ScaledForm::kNone;
  if (scaled != ScaledForm::kNone)
    return ScaledArithmeticCycles(target, scaled, expression_.code.back().operand_type, elements);
  if (!alone || HasOwnCodelet(*only) || hlo::constantDivisionOf(expression_, *only))
    return Cycles(target, Generated(target), elements);
  const bool scalar = OperandsOf(only->op) == 2 && scalars_[only->operand[0]] != scalars_[only->operand[1]];
  return Cycles(target, Single(target, scalar), elements);
}

std::uint64_t ElementwiseCost::Cycles(const TargetModel& target,
                                      const std::vector<std::int64_t>& extents) const {
  std::int64_t elements = 1;
  for (const std::int64_t extent : extents) elements *= extent;
  for (const std::uint16_t operand : Repeated()) {
    const Instruction& only = expression_.code[0];
    const Repetition repetition = RepetitionOf(extents, repeats_[operand]);
    if (repetition.kind == Repetition::Kind::kOne) return Cycles(target, Single(target, true), elements);
    const auto cycles = VectorBroadcastCycles(target, only.op, only.operand_type, in_place_, repetition);
    if (cycles.has_value()) return *cycles;
  }
  return Cycles(target, elements);
}

std::uint64_t ElementwiseCost::CyclesOfParts(const TargetModel& target,
                                             const std::vector<std::vector<std::int64_t>>& extents) const {
  if (extents.size() == 1) return Cycles(target, extents[0]);
  std::int64_t elements = 0;
  for (const std::vector<std::int64_t>& part : extents) {
    std::int64_t n = 1;
    for (const std::int64_t extent : part) n *= extent;
    elements += n;
  }
  for (const std::uint16_t operand : Repeated()) {
    const Instruction& only = expression_.code[0];
    const std::vector<std::int64_t> regions = ScalarRegions(extents, repeats_[operand]);
    if (regions.empty()) continue;
    // One vertex of all workers for each region, or one for each worker (PopLibs:
    // createVertexBinaryOpBroadcastScalar).
    std::uint64_t cycles = 0;
    for (const std::int64_t region : regions) cycles += Cycles(target, Single(target, true), region);
    const auto by_worker =
        ScalarBroadcastCycles(target, only.op, only.operand_type, LoopAlone(only, true, in_place_), regions);
    if (cycles < by_worker.first) return cycles;
    if (by_worker.second) return by_worker.first;
  }
  return Cycles(target, elements);
}

std::vector<std::uint16_t> ElementwiseCost::Repeated() const {
  if (!repeats()) return {};
  const Instruction& only = expression_.code[0];
  const std::uint16_t first = only.operand[0], second = only.operand[1];
  if (OperandsOf(only.op) != 2 || std::max(first, second) >= repeats_.size() || scalars_[first] ||
      scalars_[second])
    return {};
  // The first operand may repeat if the second can take its place.
  if (HasTrait(only.op, hlo::kCommutative) && !in_place_) return {second, first};
  return {second};
}

std::uint64_t ElementwiseCost::Cycles(const TargetModel& target, const Worker& worker,
                                      std::int64_t elements) const {
  const std::int64_t workers = target.worker_contexts;
  return static_cast<std::uint64_t>(workers * (worker.entry + worker.loop.Of(CeilDivide(elements, workers))) +
                                    worker.launch);
}

std::uint64_t ElementwiseCost::CodeBytes(const TargetModel& target) const {
  constexpr std::int64_t kEntryInstructions = 24, kInstructionsPerOperation = 10;
  const auto operations = static_cast<std::int64_t>(expression_.code.size());
  return static_cast<std::uint64_t>(kEntryInstructions + kInstructionsPerOperation * operations) *
         target.instruction_bytes;
}

}  // namespace ipu_model

namespace hlo {

using namespace ipu_model;

struct MapCost::Data {
  ElementwiseCost cost;
};

MapCost::MapCost(const Expression& expression, const std::vector<unsigned>& outputs,
                 const std::vector<bool>& scalarInputs, bool inPlace,
                 const std::vector<std::vector<bool>>& repeats) {
  std::vector<unsigned> used;
  const Expression part = SelectOutputs(expression, outputs, &used);
  std::vector<bool> scalars;
  std::vector<std::vector<bool>> repeated;
  for (const unsigned i : used) {
    scalars.push_back(scalarInputs.at(i));
    if (!repeats.empty()) repeated.push_back(repeats.at(i));
  }
  data_ = std::make_shared<const Data>(Data{ElementwiseCost(part, scalars, inPlace, repeated)});
}

std::uint64_t MapCost::cycles(const poplar::Target& target, const std::vector<std::size_t>& extents) const {
  return data_->cost.Cycles(ipu_model::ModelOf(target),
                            std::vector<std::int64_t>(extents.begin(), extents.end()));
}

std::uint64_t MapCost::cyclesOfParts(const poplar::Target& target,
                                     const std::vector<std::vector<std::size_t>>& extents) const {
  std::vector<std::vector<std::int64_t>> parts;
  for (const std::vector<std::size_t>& part : extents) parts.emplace_back(part.begin(), part.end());
  return data_->cost.CyclesOfParts(ipu_model::ModelOf(target), parts);
}

}  // namespace hlo
