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
#include "poplibs/scalar_program.h"

namespace jax_ipu::poplibs {
namespace {

namespace pe = popops::expr;
using pe::Any;

// A value that is read more than once, and takes as many operations, gets a tensor.
constexpr std::size_t kWorthATensor = 4;
// Expressions are trees, and each of their operations a line of a codelet.
constexpr std::size_t kLargestTree = 200;

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
      for (std::size_t n = 0; n < hlo::OperandsOf(i.op); ++n)
        reads[i.operand[n]] += ScalarProgram::TimesRead(i);
    for (const std::uint16_t out : e_.outputs) ++reads[out];
    for (std::size_t reg = first; reg < reads.size(); ++reg) {
      const Instruction& i = e_.code[reg - first];
      const std::size_t operands = hlo::OperandsOf(i.op);
      const auto size = [&] {
        std::size_t sum = 1;
        for (std::size_t n = 0; n < operands; ++n) sum += ScalarProgram::TimesRead(i) * nodes[i.operand[n]];
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
  ScalarProgram program_;
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

std::string WhyNot(const hlo::Expression& expression) { return ScalarProgram(expression).WhyNot(); }

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
