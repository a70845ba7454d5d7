#include "poplibs/expression.h"

#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <poplar/TypeConversion.hpp>
#include <popops/ElementWise.hpp>
#include <popops/Expr.hpp>
#include <unordered_map>

#include "hlo/ScalarOps.hpp"
#include "ipu_model/Model.hpp"

namespace jax_ipu::poplibs {
namespace {

namespace pe = popops::expr;
using hlo::Instruction;
using hlo::ScalarOp;
using ipu_model::DType;
using pe::Any;
using pe::BinaryOpType;
using pe::UnaryOpType;

// A value that is read more than once, and takes as many operations, gets a tensor.
constexpr std::size_t kWorthATensor = 4;
// Expressions are trees, and each of their operations a line of a codelet.
constexpr std::size_t kLargestTree = 200;

bool IsReal(DType type) { return type == DType::kF32 || type == DType::kF16; }
bool IsWhole(DType type) { return type == DType::kS32 || type == DType::kU32; }
bool IsKnown(DType type) { return IsReal(type) || IsWhole(type) || type == DType::kPred; }

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

// Logical operations on predicates; PopLibs has no bitwise ones for them.
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

// false is less than true: one of both is turned, and then a logical operation is the order.
struct OrderOfPredicates {
  BinaryOpType operation;
  std::size_t turned;
};
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

class Program {
 public:
  explicit Program(const hlo::Expression& e) : e_(e) {}

  const hlo::ScalarConstant* ConstantOf(unsigned reg) const {
    const std::size_t first = e_.inputs.size();
    return reg >= first && reg < first + e_.constants.size() ? &e_.constants[reg - first] : nullptr;
  }
  const Instruction* InstructionOf(unsigned reg) const {
    const std::size_t first = e_.inputs.size() + e_.constants.size();
    return reg >= first ? &e_.code[reg - first] : nullptr;
  }

  // Why PopLibs cannot compute an instruction with StableHLO's values, or "".
  std::string WhyNot(const Instruction& i) const {
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

  std::string WhyNot() const {
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

  // Whether a condition holds for all operands.
  template <typename Condition>
  static bool Operands(const Instruction& i, Condition condition) {
    for (std::size_t n = 0; n < hlo::OperandsOf(i.op); ++n)
      if (!condition(i.operand[n])) return false;
    return true;
  }

  // How often the expression of an instruction has each of its operands.
  static std::size_t TimesRead(const Instruction& i) {
    if (DividesIntegers(i) || (IsShift(i.op) && IsWhole(i.operand_type))) return 4;
    if (IsFloatOrder(i) || ConvertsToInteger(i)) return 4;
    if (i.op == ScalarOp::kSign) return IsReal(i.operand_type) ? 4 : 1;
    return 1;
  }

  // The bits of a 32-bit constant; nothing if the register is no constant.
  std::optional<std::uint32_t> BitsOf(unsigned reg) const {
    const hlo::ScalarConstant* const constant = ConstantOf(reg);
    if (constant == nullptr) return std::nullopt;
    std::uint32_t bits;
    std::memcpy(&bits, constant->bytes, sizeof bits);
    return bits;
  }

 private:
  const hlo::Expression& e_;
};

// Builds the calls of popops::map.
class Mapper {
 public:
  Mapper(poplar::Graph& graph, const hlo::Expression& e, const std::vector<poplar::Tensor>& tensors,
         poplar::program::Sequence& sequence, const std::string& name)
      : graph_(graph), e_(e), program_(e), sequence_(sequence), name_(name) {
    for (std::size_t i = 0; i < tensors.size(); ++i) values_.emplace(static_cast<unsigned>(i), tensors[i]);
    ChooseTensors();
  }

  poplar::Tensor Compute(unsigned reg, const poplar::Tensor* out) {
    const auto known = values_.find(reg);
    if (known != values_.end()) {
      if (out == nullptr) return known->second;
      sequence_.add(poplar::program::Copy(known->second, *out, false, name_));
      return *out;
    }
    ComputeTensorsBelow(reg);
    read_.clear();
    places_.clear();
    if (out == nullptr) {
      const Any tree = Tree(reg);
      return values_.emplace(reg, popops::map(graph_, tree, read_, sequence_, name_)).first->second;
    }
    // popops writes over the first tensor that it reads.
    for (const auto& [operand, tensor] : values_) {
      if (tensor != *out) continue;
      Read(operand, tensor);
      first_is_read_ = false;
      const Any tree = Tree(reg);
      if (first_is_read_ && !SharesMemory(*out, 1)) {
        popops::mapInPlace(graph_, tree, read_, sequence_, name_);
        return *out;
      }
      read_.clear();
      places_.clear();
      break;
    }
    const Any tree = Tree(reg);
    if (SharesMemory(*out, 0)) {
      const poplar::Tensor aside = popops::map(graph_, tree, read_, sequence_, name_);
      sequence_.add(poplar::program::Copy(aside, *out, false, name_));
    } else {
      popops::mapWithOutput(graph_, tree, read_, *out, sequence_, name_);
    }
    return *out;
  }

 private:
  unsigned FirstResult() const { return static_cast<unsigned>(e_.inputs.size() + e_.constants.size()); }

  // Which instructions get a tensor of their own.
  void ChooseTensors() {
    const std::size_t first = FirstResult();
    std::vector<std::size_t> reads(first + e_.code.size()), nodes(first + e_.code.size(), 1);
    own_tensor_.assign(first + e_.code.size(), false);
    for (const Instruction& i : e_.code)
      for (std::size_t n = 0; n < hlo::OperandsOf(i.op); ++n) reads[i.operand[n]] += Program::TimesRead(i);
    for (const std::uint16_t out : e_.outputs) ++reads[out];
    for (std::size_t reg = first; reg < reads.size(); ++reg) {
      const Instruction& i = e_.code[reg - first];
      const std::size_t operands = hlo::OperandsOf(i.op);
      const auto size = [&] {
        std::size_t sum = 1;
        for (std::size_t n = 0; n < operands; ++n) sum += Program::TimesRead(i) * nodes[i.operand[n]];
        return sum;
      };
      while (size() > kLargestTree) {
        unsigned largest = i.operand[0];
        for (std::size_t n = 1; n < operands; ++n)
          if (nodes[i.operand[n]] > nodes[largest]) largest = i.operand[n];
        if (nodes[largest] == 1) break;
        own_tensor_[largest] = true;
        nodes[largest] = 1;
      }
      nodes[reg] = size();
      if ((reads[reg] > 1 && nodes[reg] >= kWorthATensor) || ReadsAliases(i)) {
        own_tensor_[reg] = true;
        nodes[reg] = 1;
      }
    }
  }

  // Whether an operand is a broadcast. popops makes no codelet of an expression that reads one: each of its
  // operations becomes a compute set. Alone it leaves the others to a codelet.
  bool ReadsAliases(const Instruction& i) const {
    for (std::size_t n = 0; n < hlo::OperandsOf(i.op); ++n) {
      const auto tensor = values_.find(i.operand[n]);
      if (tensor != values_.end() && tensor->second.containsAliases()) return true;
    }
    return false;
  }

  void ComputeTensorsBelow(unsigned reg) {
    const Instruction* const i = program_.InstructionOf(reg);
    if (i == nullptr) return;
    for (std::size_t n = 0; n < hlo::OperandsOf(i->op); ++n) {
      const unsigned operand = i->operand[n];
      if (values_.count(operand) != 0) continue;
      if (own_tensor_[operand]) {
        Compute(operand, nullptr);
      } else {
        ComputeTensorsBelow(operand);
      }
    }
  }

  // Whether the tensor has elements of what the tree reads, from the given tensor on.
  bool SharesMemory(const poplar::Tensor& tensor, std::size_t first) const {
    for (std::size_t n = first; n < read_.size(); ++n)
      if (tensor.intersectsWith(read_[n])) return true;
    return false;
  }

  Any Read(unsigned reg, const poplar::Tensor& tensor) {
    const auto [place, is_new] = places_.emplace(reg, static_cast<unsigned>(read_.size() + 1));
    if (is_new) read_.push_back(tensor);
    first_is_read_ = first_is_read_ || place->second == 1;
    return pe::PlaceHolder(place->second);
  }

  Any ConstantOf(const hlo::ScalarConstant& constant) const {
    const auto value = [&constant](auto zero) {
      std::memcpy(&zero, constant.bytes, sizeof zero);
      return zero;
    };
    switch (constant.type) {
      case DType::kF32:
        return pe::Const(value(0.0f));
      case DType::kF16: {
        float number = 0.0f;
        poplar::copyDeviceHalfToFloat(graph_.getTarget(), constant.bytes, &number, 1);
        return pe::ConstHalf(number);
      }
      case DType::kS32:
        return pe::Const(value(std::int32_t{0}));
      case DType::kU32:
        return pe::Const(value(std::uint32_t{0}));
      default:
        return pe::Const(constant.bytes[0] != 0);
    }
  }

  static Any Number(DType type, float value) {
    if (type == DType::kF16) return pe::ConstHalf(value);
    return pe::Const(value);
  }

  // The value of a constant of a float type, if the register is one that is no NaN.
  bool IsNumber(unsigned reg) const {
    const hlo::ScalarConstant* const constant = program_.ConstantOf(reg);
    if (constant == nullptr) return false;
    if (constant->type == DType::kF16) {
      std::uint16_t bits;
      std::memcpy(&bits, constant->bytes, sizeof bits);
      return (bits & 0x7fff) <= 0x7c00;
    }
    float value;
    std::memcpy(&value, constant->bytes, sizeof value);
    return !std::isnan(value);
  }

  // The larger or smaller of two; popops' own operators lose a NaN.
  static Any Extreme(bool largest, const Any& a, const Any& b, bool b_is_number) {
    const Any first = largest ? Any(pe::Not(pe::Lte(a, b))) : Any(pe::Not(pe::Gte(a, b)));
    const Any chosen = pe::Select(a, b, first);
    return b_is_number ? chosen : Any(pe::Select(chosen, b, pe::Equal(b, b)));
  }

  // StableHLO's conversion to integers saturates, and NaN becomes 0.
  static Any ToInteger(const Any& x, DType from, DType to) {
    const bool is_signed = to == DType::kS32;
    const Any value = from == DType::kF32 ? x : Any(pe::Cast(x, poplar::FLOAT));
    const float limit = is_signed ? 2147483648.0f : 4294967296.0f;
    const Any below =
        is_signed ? Any(pe::Lte(value, pe::Const(-limit))) : Any(pe::Lte(value, pe::Const(0.0f)));
    const Any inside = pe::And(pe::Lt(value, pe::Const(limit)), pe::Not(below));
    const Any cast = pe::Cast(pe::Select(value, pe::Const(0.0f), inside), ipu_model::TypeOf(to));
    if (!is_signed)
      return pe::Select(pe::Const(std::uint32_t{0xffffffffu}), cast, pe::Gte(value, pe::Const(limit)));
    const Any lower = pe::Select(pe::Const(std::int32_t{-2147483647 - 1}), cast, below);
    return pe::Select(pe::Const(std::int32_t{2147483647}), lower, pe::Gte(value, pe::Const(limit)));
  }

  static Any Whole(DType type, std::int64_t value) {
    if (type == DType::kS32) return pe::Const(static_cast<std::int32_t>(value));
    return pe::Const(static_cast<std::uint32_t>(value));
  }

  // popops does not define a division by 0, nor that of the least integer by -1; StableHLO does: the quotient
  // by 0 has all bits, the remainder is the dividend; the others are those of the dividend's negative.
  Any DivideIntegers(const Instruction& i) {
    const BinaryOpType operation = Binary(i.op).value();
    const bool is_quotient = i.op == ScalarOp::kDivide;
    const DType type = i.operand_type;
    const Any x = Tree(i.operand[0]), y = Tree(i.operand[1]);
    // popops finds no type for a comparison of two constants.
    if (const auto divisor = program_.BitsOf(i.operand[1])) {
      const bool is_minus_one = type == DType::kS32 && *divisor == 0xffffffffu;
      if (*divisor != 0 && !is_minus_one) return pe::BinaryOp(operation, x, y);
      if (is_minus_one && is_quotient) return pe::Sub(Whole(type, 0), x);
      if (is_minus_one) return pe::BitwiseAnd(x, Whole(type, 0));
      return pe::BitwiseOr(x, Whole(type, is_quotient ? -1 : 0));
    }
    Any by_one = pe::Equal(y, Whole(type, 0));
    if (type == DType::kS32) by_one = pe::Or(by_one, pe::Equal(y, Whole(type, -1)));
    Any result = pe::BinaryOp(operation, x, pe::Select(Whole(type, 1), y, by_one));
    if (type == DType::kS32 && is_quotient)
      result = pe::Select(pe::Sub(Whole(type, 0), x), result, pe::Equal(y, Whole(type, -1)));
    return pe::Select(is_quotient ? Whole(type, -1) : x, result, pe::Equal(y, Whole(type, 0)));
  }

  // Nor does it define shifts by as many bits as there are, or more: they leave no bit, or the sign.
  Any Shift(const Instruction& i) {
    const BinaryOpType operation = Binary(i.op).value();
    const DType type = i.operand_type;
    const Any x = Tree(i.operand[0]), bits = Tree(i.operand[1]);
    const Any last = Whole(type, 31);
    if (const auto constant = program_.BitsOf(i.operand[1])) {
      if (*constant < 32) return pe::BinaryOp(operation, x, bits);
      if (i.op == ScalarOp::kShiftRightArithmetic) return pe::BinaryOp(operation, x, last);
      return pe::BitwiseAnd(x, Whole(type, 0));
    }
    Any is_defined = pe::Lte(bits, last);
    if (type == DType::kS32) is_defined = pe::And(is_defined, pe::Gte(bits, Whole(type, 0)));
    if (i.op == ScalarOp::kShiftRightArithmetic)
      return pe::BinaryOp(operation, x, pe::Select(bits, last, is_defined));
    return pe::Select(pe::BinaryOp(operation, x, pe::BitwiseAnd(bits, last)), Whole(type, 0), is_defined);
  }

  Any Convert(const Instruction& i) {
    const Any x = Tree(i.operand[0]);
    if (i.operand_type == i.result_type) return x;
    if (i.result_type == DType::kPred) {
      if (IsReal(i.operand_type)) return pe::NotEqual(x, Number(i.operand_type, 0.0f));
      if (i.operand_type == DType::kS32) return pe::NotEqual(x, pe::Const(std::int32_t{0}));
      return pe::NotEqual(x, pe::Const(std::uint32_t{0}));
    }
    if (ConvertsToInteger(i)) return ToInteger(x, i.operand_type, i.result_type);
    return pe::Cast(x, ipu_model::TypeOf(i.result_type));
  }

  Any Tree(unsigned reg) {
    const auto known = values_.find(reg);
    if (known != values_.end()) return Read(reg, known->second);
    if (const hlo::ScalarConstant* const constant = program_.ConstantOf(reg)) return ConstantOf(*constant);
    const Instruction& i = *program_.InstructionOf(reg);
    const auto operand = [&](std::size_t n) { return Tree(i.operand[n]); };
    switch (i.op) {
      case ScalarOp::kConvert:
        return Convert(i);
      case ScalarOp::kSelect:
        return pe::Select(operand(1), operand(2), operand(0));
      case ScalarOp::kNot:
        return i.operand_type == DType::kPred ? Any(pe::Not(operand(0))) : Any(pe::BitwiseNot(operand(0)));
      case ScalarOp::kSign: {
        if (!IsReal(i.operand_type)) return pe::Signum(operand(0));
        // The sign of NaN is NaN, that of -0 is -0.
        const Any x = operand(0), zero = Number(i.operand_type, 0.0f);
        return pe::Select(pe::Signum(x), x, pe::Or(pe::Lt(x, zero), pe::Gt(x, zero)));
      }
      case ScalarOp::kClamp: {
        if (!IsReal(i.operand_type)) return pe::Min(pe::Max(operand(1), operand(0)), operand(2));
        const Any least = Extreme(true, operand(1), operand(0), IsNumber(i.operand[0]));
        return Extreme(false, least, operand(2), IsNumber(i.operand[2]));
      }
      default:
        break;
    }
    if (i.op == ScalarOp::kNegate && i.operand_type == DType::kU32)
      return pe::Sub(Whole(DType::kU32, 0), operand(0));  // popops has no negation without sign
    if (const auto unary = Unary(i.op)) return pe::UnaryOp(*unary, operand(0));
    if (DividesIntegers(i)) return DivideIntegers(i);
    if (IsShift(i.op)) return Shift(i);
    if (const auto order = i.operand_type == DType::kPred ? OrderOf(i.op) : std::nullopt) {
      const auto side = [&](std::size_t n) {
        return n == order->turned ? Any(pe::Not(operand(n))) : operand(n);
      };
      return pe::BinaryOp(order->operation, side(0), side(1));
    }
    if (i.operand_type == DType::kPred)
      return pe::BinaryOp(BinaryOfPredicates(i.op).value(), operand(0), operand(1));
    if (IsFloatOrder(i)) {
      const bool first_is_number = IsNumber(i.operand[0]);
      return Extreme(i.op == ScalarOp::kMaximum, operand(first_is_number ? 1 : 0),
                     operand(first_is_number ? 0 : 1), first_is_number || IsNumber(i.operand[1]));
    }
    return pe::BinaryOp(Binary(i.op).value(), operand(0), operand(1));
  }

  poplar::Graph& graph_;
  const hlo::Expression& e_;
  Program program_;
  poplar::program::Sequence& sequence_;
  std::string name_;
  std::map<unsigned, poplar::Tensor> values_;
  std::vector<bool> own_tensor_;
  // Of the tree that is being built: the tensors that it reads, and their places.
  std::vector<poplar::Tensor> read_;
  std::map<unsigned, unsigned> places_;
  bool first_is_read_ = false;
};

}  // namespace

std::string WhyNot(const hlo::Expression& expression) { return Program(expression).WhyNot(); }

std::vector<poplar::Tensor> Map(poplar::Graph& graph, const hlo::Expression& expression,
                                const std::vector<poplar::Tensor>& tensors,
                                const std::vector<const poplar::Tensor*>& outs,
                                poplar::program::Sequence& sequence, const std::string& name) {
  if (std::string why = WhyNot(expression); !why.empty()) throw Lacks(why);
  Mapper mapper(graph, expression, tensors, sequence, name);
  // Tensors that are written over go last: other results may read them.
  std::vector<poplar::Tensor> results(expression.outputs.size());
  std::vector<std::size_t> over;
  for (std::size_t n = 0; n < results.size(); ++n) {
    if (outs[n] != nullptr) over.push_back(n);
    if (outs[n] == nullptr) results[n] = mapper.Compute(expression.outputs[n], nullptr);
  }
  if (over.size() == 1) results[over[0]] = mapper.Compute(expression.outputs[over[0]], outs[over[0]]);
  if (over.size() > 1) {
    for (const std::size_t n : over) results[n] = mapper.Compute(expression.outputs[n], nullptr);
    for (const std::size_t n : over) {
      sequence.add(poplar::program::Copy(results[n], *outs[n], false, name));
      results[n] = *outs[n];
    }
  }
  return results;
}

}  // namespace jax_ipu::poplibs
