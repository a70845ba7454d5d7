#include "operations/elementwise/scaled_arithmetic_cost.h"

#include <cstddef>

namespace ipu_model {
namespace {

// What a register holds: a tensor, a scalar, or a scalar times a tensor.
struct Term {
  enum class Kind { kTensor, kScaled, kOther } kind = Kind::kOther;
  std::uint16_t tensor = 0;
};

class Terms {
 public:
  Terms(const Expression& expression, const std::vector<bool>& scalars)
      : expression_(expression), scalars_(scalars) {}

  Term Of(std::uint16_t reg) const {
    using Kind = Term::Kind;
    if (reg < scalars_.size()) return scalars_[reg] ? Term{} : Term{Kind::kTensor, reg};
    const Instruction& product = At(reg);
    if (product.op != ScalarOp::kMultiply) return {};
    for (const int k : {0, 1}) {
      const std::uint16_t scalar = product.operand[k], tensor = product.operand[1 - k];
      if (scalar < scalars_.size() && scalars_[scalar] && Of(tensor).kind == Kind::kTensor)
        return {Kind::kScaled, tensor};
    }
    return {};
  }
  const Instruction& At(std::uint16_t reg) const { return expression_.code[reg - scalars_.size()]; }
  bool IsCode(std::uint16_t reg) const { return reg >= scalars_.size(); }

 private:
  const Expression& expression_;
  const std::vector<bool>& scalars_;
};

}  // namespace

ScaledForm ScaledFormOf(const Expression& expression, const std::vector<bool>& scalars) {
  const std::size_t operations = expression.code.size();
  if (operations < 2 || operations > 4 || expression.outputs.size() != 1) return ScaledForm::kNone;
  const Instruction& last = expression.code.back();
  if (expression.outputs[0] != scalars.size() + operations - 1) return ScaledForm::kNone;
  if (last.op != ScalarOp::kAdd && last.op != ScalarOp::kSubtract) return ScaledForm::kNone;
  if (last.operand_type != DType::kF32 && last.operand_type != DType::kF16) return ScaledForm::kNone;
  const bool sum = last.op == ScalarOp::kAdd;
  const Terms terms(expression, scalars);
  const Term left = terms.Of(last.operand[0]), right = terms.Of(last.operand[1]);
  using Kind = Term::Kind;
  const auto two = [](const Term& a, Kind of_a, const Term& b, Kind of_b) {
    return a.kind == of_a && b.kind == of_b && a.tensor != b.tensor;
  };
  if (operations == 2) {
    if (two(left, Kind::kTensor, right, Kind::kScaled)) return sum ? ScaledForm::kAdd : ScaledForm::kSubtract;
    return sum && two(left, Kind::kScaled, right, Kind::kTensor) ? ScaledForm::kAdd : ScaledForm::kNone;
  }
  if (operations == 3) {
    if (!two(left, Kind::kScaled, right, Kind::kScaled)) return ScaledForm::kNone;
    return sum ? ScaledForm::kAxPlusBy : ScaledForm::kAxMinusBy;
  }
  // X - a X, to which b Y is added.
  for (const int k : {0, 1}) {
    const Term& scaled = k == 0 ? right : left;
    const std::uint16_t other = last.operand[k];
    if (!sum || scaled.kind != Kind::kScaled || !terms.IsCode(other)) continue;
    const Instruction& rest = terms.At(other);
    if (rest.op != ScalarOp::kSubtract) continue;
    const Term x = terms.Of(rest.operand[0]), ax = terms.Of(rest.operand[1]);
    if (x.kind == Kind::kTensor && ax.kind == Kind::kScaled && x.tensor == ax.tensor &&
        scaled.tensor != x.tensor)
      return ScaledForm::kAxPlusBy;
  }
  return ScaledForm::kNone;
}

std::uint64_t ScaledArithmeticCycles(const TargetModel& target, ScaledForm form, DType type,
                                     std::int64_t elements) {
  const bool half = type == DType::kF16, two_scales = form >= ScaledForm::kAxPlusBy;
  const std::int64_t workers = target.worker_contexts, width = target.VectorWidth(type);
  const std::int64_t vectors = elements / width / workers, rest = elements % width;
  std::int64_t supervisor = 21 + target.supervisor_overhead + (rest == 0 ? 7 : 13) + 12 + 6;
  if (form == ScaledForm::kSubtract) supervisor += 7;
  if (form == ScaledForm::kAxPlusBy) supervisor += 12;
  // The worker that has what is left of a vector takes longest.
  std::int64_t worker = (vectors > 0 ? 6 + 3 * (vectors - 1) : 0) + 1 + 1;
  if (two_scales && !half) {
    worker += 16 + (rest == 0 ? 0 : 5);
  } else {
    worker += 15 + 2 + (rest == 0 ? 0 : !half ? 8 : rest == 1 ? 5 : rest == 2 ? 12 : 18);
  }
  return static_cast<std::uint64_t>(supervisor + workers * worker);
}

}  // namespace ipu_model
