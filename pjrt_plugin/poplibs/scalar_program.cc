#include "poplibs/scalar_program.h"

#include <cstring>
#include <unordered_map>

namespace jax_ipu::poplibs {

bool IsReal(DType type) { return type == DType::kF32 || type == DType::kF16; }
bool IsWhole(DType type) { return type == DType::kS32 || type == DType::kU32; }
namespace {

bool IsKnown(DType type) { return IsReal(type) || IsWhole(type) || type == DType::kPred; }

}  // namespace

std::optional<UnaryOpType> Unary(ScalarOp op) {
  static const std::unordered_map<ScalarOp, UnaryOpType> table = {
      {ScalarOp::kAbs, UnaryOpType::ABSOLUTE},
      {ScalarOp::kNegate, UnaryOpType::NEGATE},
      {ScalarOp::kPopcnt, UnaryOpType::POPCOUNT},
      {ScalarOp::kClz, UnaryOpType::COUNT_LEADING_ZEROS},
      {ScalarOp::kCeil, UnaryOpType::CEIL},
      {ScalarOp::kFloor, UnaryOpType::FLOOR},
      {ScalarOp::kRoundNearestAfz, UnaryOpType::ROUND},
      {ScalarOp::kRoundNearestEven, UnaryOpType::NEARBY_INT},
      {ScalarOp::kTrunc, UnaryOpType::TRUNC},
      {ScalarOp::kCbrt, UnaryOpType::CBRT},
      {ScalarOp::kCos, UnaryOpType::COS},
      {ScalarOp::kSin, UnaryOpType::SIN},
      {ScalarOp::kTan, UnaryOpType::TAN},
      {ScalarOp::kTanh, UnaryOpType::TANH},
      {ScalarOp::kExp, UnaryOpType::EXPONENT},
      {ScalarOp::kExpm1, UnaryOpType::EXPONENT_MINUS_ONE},
      {ScalarOp::kLog, UnaryOpType::LOGARITHM},
      {ScalarOp::kLog1p, UnaryOpType::LOGARITHM_ONE_PLUS},
      {ScalarOp::kLogistic, UnaryOpType::SIGMOID},
      {ScalarOp::kSqrt, UnaryOpType::SQRT},
      {ScalarOp::kRsqrt, UnaryOpType::RSQRT},
      {ScalarOp::kErf, UnaryOpType::ERF},
      {ScalarOp::kSquare, UnaryOpType::SQUARE},
      {ScalarOp::kInverse, UnaryOpType::INVERSE},
      {ScalarOp::kIsFinite, UnaryOpType::IS_FINITE},
  };
  const auto found = table.find(op);
  return found == table.end() ? std::nullopt : std::optional(found->second);
}

std::optional<BinaryOpType> Binary(ScalarOp op) {
  static const std::unordered_map<ScalarOp, BinaryOpType> table = {
      {ScalarOp::kAdd, BinaryOpType::ADD},
      {ScalarOp::kSubtract, BinaryOpType::SUBTRACT},
      {ScalarOp::kMultiply, BinaryOpType::MULTIPLY},
      {ScalarOp::kDivide, BinaryOpType::DIVIDE},
      {ScalarOp::kRemainder, BinaryOpType::REMAINDER},
      {ScalarOp::kPower, BinaryOpType::POWER},
      {ScalarOp::kAtan2, BinaryOpType::ATAN2},
      {ScalarOp::kMaximum, BinaryOpType::MAXIMUM},
      {ScalarOp::kMinimum, BinaryOpType::MINIMUM},
      {ScalarOp::kAnd, BinaryOpType::BITWISE_AND},
      {ScalarOp::kOr, BinaryOpType::BITWISE_OR},
      {ScalarOp::kXor, BinaryOpType::BITWISE_XOR},
      {ScalarOp::kShiftLeft, BinaryOpType::SHIFT_LEFT},
      {ScalarOp::kShiftRightLogical, BinaryOpType::SHIFT_RIGHT},
      {ScalarOp::kShiftRightArithmetic, BinaryOpType::SHIFT_RIGHT_SIGN_EXTEND},
      {ScalarOp::kEq, BinaryOpType::EQUAL},
      {ScalarOp::kNe, BinaryOpType::NOT_EQUAL},
      {ScalarOp::kLt, BinaryOpType::LESS_THAN},
      {ScalarOp::kLe, BinaryOpType::LESS_THAN_EQUAL},
      {ScalarOp::kGt, BinaryOpType::GREATER_THAN},
      {ScalarOp::kGe, BinaryOpType::GREATER_THAN_EQUAL},
  };
  const auto found = table.find(op);
  return found == table.end() ? std::nullopt : std::optional(found->second);
}

std::optional<BinaryOpType> BinaryOfPredicates(ScalarOp op) {
  switch (op) {
    case ScalarOp::kAnd:
    case ScalarOp::kMultiply:
    case ScalarOp::kMinimum:
      return BinaryOpType::LOGICAL_AND;
    case ScalarOp::kOr:
    case ScalarOp::kAdd:
    case ScalarOp::kMaximum:
      return BinaryOpType::LOGICAL_OR;
    case ScalarOp::kXor:
    case ScalarOp::kNe:
      return BinaryOpType::NOT_EQUAL;
    case ScalarOp::kEq:
      return BinaryOpType::EQUAL;
    default:
      return std::nullopt;
  }
}

std::optional<OrderOfPredicates> OrderOf(ScalarOp op) {
  switch (op) {
    case ScalarOp::kLt:
      return OrderOfPredicates{BinaryOpType::LOGICAL_AND, 0};
    case ScalarOp::kLe:
      return OrderOfPredicates{BinaryOpType::LOGICAL_OR, 0};
    case ScalarOp::kGt:
      return OrderOfPredicates{BinaryOpType::LOGICAL_AND, 1};
    case ScalarOp::kGe:
      return OrderOfPredicates{BinaryOpType::LOGICAL_OR, 1};
    default:
      return std::nullopt;
  }
}

bool IsFloatOrder(const Instruction& i) {
  return (i.op == ScalarOp::kMaximum || i.op == ScalarOp::kMinimum || i.op == ScalarOp::kClamp) &&
         IsReal(i.operand_type);
}

bool ConvertsToInteger(const Instruction& i) {
  return i.op == ScalarOp::kConvert && IsReal(i.operand_type) && IsWhole(i.result_type);
}

bool IsShift(ScalarOp op) {
  return op == ScalarOp::kShiftLeft || op == ScalarOp::kShiftRightLogical ||
         op == ScalarOp::kShiftRightArithmetic;
}

bool DividesIntegers(const Instruction& i) {
  return (i.op == ScalarOp::kDivide || i.op == ScalarOp::kRemainder) && IsWhole(i.operand_type);
}

std::string ScalarProgram::WhyNot(const Instruction& i) const {
  const std::string name = hlo::ScalarRow(i.op).name;
  const DType type = i.operand_type;
  if (i.op == ScalarOp::kConvert || i.op == ScalarOp::kSelect) return "";
  if (i.op == ScalarOp::kClamp || i.op == ScalarOp::kSign)
    return type == DType::kPred ? "popops has no " + name + " of predicates" : "";
  if (i.op == ScalarOp::kNot) return "";
  if (Unary(i.op)) return type == DType::kPred ? "popops has no " + name + " of predicates" : "";
  if (type == DType::kPred)
    return BinaryOfPredicates(i.op) || OrderOf(i.op) ? "" : "popops has no " + name + " of predicates";
  if (!Binary(i.op)) return "popops has no " + name;
  if (IsWhole(type)) {
    if (i.op == ScalarOp::kPower) return "popops' power of integers takes no negative exponent";
  }
  return "";
}

std::string ScalarProgram::WhyNot() const {
  for (const DType type : e_.inputs)
    if (!IsKnown(type)) return std::string("PopLibs has no vertices for ") + ipu_model::NameOf(type);
  for (const Instruction& i : e_.code) {
    if (!IsKnown(i.operand_type) || !IsKnown(i.result_type))
      return std::string("PopLibs has no vertices for ") +
             ipu_model::NameOf(IsKnown(i.operand_type) ? i.result_type : i.operand_type);
    if (std::string why = WhyNot(i); !why.empty()) return why;
  }
  for (const std::uint16_t out : e_.outputs) {
    const Instruction* const i = InstructionOf(out);
    if (i == nullptr) return "a result is an operand or a constant";
    if (Operands(*i, [this](unsigned reg) { return ConstantOf(reg) != nullptr; }))
      return "a result is an operation on constants";
  }
  return "";
}

std::size_t ScalarProgram::TimesRead(const Instruction& i) {
  if (DividesIntegers(i) || (IsShift(i.op) && IsWhole(i.operand_type))) return 4;
  if (IsFloatOrder(i) || ConvertsToInteger(i)) return 4;
  if (i.op == ScalarOp::kSign) return IsReal(i.operand_type) ? 4 : 1;
  return 1;
}

std::optional<std::uint32_t> ScalarProgram::BitsOf(unsigned reg) const {
  const hlo::ScalarConstant* const constant = ConstantOf(reg);
  if (constant == nullptr) return std::nullopt;
  std::uint32_t bits;
  std::memcpy(&bits, constant->bytes, sizeof bits);
  return bits;
}

}  // namespace jax_ipu::poplibs
