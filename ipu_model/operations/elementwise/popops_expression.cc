#include "operations/elementwise/popops_expression.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>

#include "kernels/vector/convert.h"
#include "operations/elementwise/operation_cost.h"
#include "poplar/exceptions.hpp"

namespace ipu_model {
namespace {

using popops::expr::BinaryOpType;
using popops::expr::TernaryOpType;
using popops::expr::UnaryOpType;
using Node = popops::expr::Expr::Node;

template <typename T>
void SetBytes(ScalarConstant* constant, T value) {
  std::memcpy(constant->bytes, &value, sizeof(value));
}

ScalarConstant IntegerConstant(std::int64_t value, DType type) {
  ScalarConstant constant;
  constant.type = type;
  std::memcpy(constant.bytes, &value, std::min<std::size_t>(SizeOf(type), sizeof(value)));
  if (type == DType::kPred) constant.bytes[0] = value != 0;
  return constant;
}

class Flattener {
 public:
  explicit Flattener(const std::vector<DType>& inputs) {
    for (const DType type : inputs) types_.push_back(type);
    num_inputs_ = inputs.size();
  }

  Expression Run(const popops::expr::Expr& expr) {
    const int root = Visit(expr.node());
    Expression result;
    result.inputs.assign(types_.begin(), types_.begin() + static_cast<std::ptrdiff_t>(num_inputs_));
    result.constants = constants_;
    result.code = code_;
    for (Instruction& i : result.code)
      for (std::uint16_t& operand : i.operand) operand = Number(operand);
    result.outputs = {Number(static_cast<std::uint16_t>(root))};
    return result;
  }

 private:
  // Register numbers while constants are still being added: inputs, then constants from kFirstConstant, then
  // results.
  static constexpr int kFirstConstant = 1 << 12, kFirstResult = 1 << 13;

  std::uint16_t Number(std::uint16_t reg) const {
    const std::size_t offset = reg < kFirstConstant ? reg
                               : reg < kFirstResult ? num_inputs_ + reg - kFirstConstant
                                                    : num_inputs_ + constants_.size() + reg - kFirstResult;
    return static_cast<std::uint16_t>(offset);
  }
  DType TypeOf(int reg) const {
    if (reg >= kFirstResult) return code_[static_cast<std::size_t>(reg - kFirstResult)].result_type;
    if (reg >= kFirstConstant) return constants_[static_cast<std::size_t>(reg - kFirstConstant)].type;
    return types_[static_cast<std::size_t>(reg)];
  }

  int AddConstant(const ScalarConstant& constant) {
    for (std::size_t i = 0; i < constants_.size(); ++i) {
      if (constants_[i].type == constant.type && std::memcmp(constants_[i].bytes, constant.bytes, 16) == 0)
        return kFirstConstant + static_cast<int>(i);
    }
    constants_.push_back(constant);
    return kFirstConstant + static_cast<int>(constants_.size()) - 1;
  }
  int Constant(double value, DType type) { return AddConstant(ConstantOf(value, type)); }

  int Emit(ScalarOp op, DType result, int a, int b = 0, int c = 0) {
    const DType operand = op == ScalarOp::kSelect ? TypeOf(b) : TypeOf(a);
    const std::array<int, 5> key = {static_cast<int>(op), static_cast<int>(result), a, b, c};
    const auto found = emitted_.find(key);
    if (found != emitted_.end()) return found->second;
    Instruction instruction;
    instruction.op = op;
    instruction.operand_type = operand;
    instruction.result_type = result;
    instruction.operand[0] = static_cast<std::uint16_t>(a);
    instruction.operand[1] = static_cast<std::uint16_t>(b);
    instruction.operand[2] = static_cast<std::uint16_t>(c);
    if (op == ScalarOp::kSin || op == ScalarOp::kCos || op == ScalarOp::kTan)
      instruction.immediate = kOfPopLibs;
    code_.push_back(instruction);
    if (code_.size() >= kFirstConstant) throw poplar::poplar_error("popops::map: the expression is too long");
    return emitted_[key] = kFirstResult + static_cast<int>(code_.size()) - 1;
  }
  int Same(ScalarOp op, int a) { return Emit(op, TypeOf(a), a); }
  int Same(ScalarOp op, int a, int b) { return Emit(op, TypeOf(a), a, b); }
  int Compare(ScalarOp op, int a, int b) { return Emit(op, DType::kPred, a, b); }

  int Visit(const std::shared_ptr<const Node>& node) {
    const auto found = visited_.find(node.get());
    if (found != visited_.end()) return found->second;
    return visited_[node.get()] = Compute(*node);
  }

  // A constant takes the type of the other operand if both types are of the same class.
  int VisitLike(const std::shared_ptr<const Node>& node, DType type) {
    if (node->kind == Node::Kind::kConstant) {
      const DType own = node->type.id();
      if (IsFloat(type) && (IsFloat(own) || IsInteger(own))) return Constant(node->real, type);
      if (IsInteger(type) && IsInteger(own)) return AddConstant(IntegerConstant(node->integer, type));
    }
    return Visit(node);
  }
  // Visits operands of one type; constants take the type of the other operands.
  std::array<int, 3> VisitAll(const Node& node, std::size_t first, std::size_t count) {
    std::array<int, 3> regs{};
    std::size_t leader = first;
    for (std::size_t i = first; i < first + count; ++i) {
      if (node.operands[i]->kind == Node::Kind::kConstant) continue;
      leader = i;
      break;
    }
    regs[leader] = Visit(node.operands[leader]);
    for (std::size_t i = first; i < first + count; ++i) {
      if (i != leader) regs[i] = VisitLike(node.operands[i], TypeOf(regs[leader]));
      if (TypeOf(regs[i]) != TypeOf(regs[leader])) {
        throw poplar::poplar_error(std::string("popops::map: an operation on ") +
                                   NameOf(TypeOf(regs[leader])) + " and " + NameOf(TypeOf(regs[i])) +
                                   "; cast one of them");
      }
    }
    return regs;
  }

  int Compute(const Node& node) {
    switch (node.kind) {
      case Node::Kind::kConstant:
        return IsFloat(node.type.id()) ? Constant(node.real, node.type.id())
                                       : AddConstant(IntegerConstant(node.integer, node.type.id()));
      case Node::Kind::kPlaceHolder:
        if (node.index == 0 || node.index > num_inputs_) {
          throw poplar::poplar_error("popops::map: placeholder _" + std::to_string(node.index) +
                                     " in a call with " + std::to_string(num_inputs_) + " tensors");
        }
        return static_cast<int>(node.index) - 1;
      case Node::Kind::kCast: {
        const int a = Visit(node.operands[0]);
        return TypeOf(a) == node.type.id() ? a : Emit(ScalarOp::kConvert, node.type.id(), a);
      }
      case Node::Kind::kUnary:
        return Unary(static_cast<UnaryOpType>(node.op), Visit(node.operands[0]));
      case Node::Kind::kBinary: {
        const auto regs = VisitAll(node, 0, 2);
        return Binary(static_cast<BinaryOpType>(node.op), regs[0], regs[1]);
      }
      case Node::Kind::kTernary:
        break;
    }
    if (static_cast<TernaryOpType>(node.op) == TernaryOpType::CLAMP) {
      const auto regs = VisitAll(node, 0, 3);
      return Emit(ScalarOp::kClamp, TypeOf(regs[0]), regs[1], regs[0], regs[2]);
    }
    const auto regs = VisitAll(node, 0, 2);
    return Emit(ScalarOp::kSelect, TypeOf(regs[0]), Visit(node.operands[2]), regs[0], regs[1]);
  }

  int Unary(UnaryOpType op, int a) {
    const DType type = TypeOf(a);
    switch (op) {
      case UnaryOpType::ASIN: {  // atan2(x, sqrt((1 - x) (1 + x)))
        const int one = Constant(1, type);
        const int product =
            Same(ScalarOp::kMultiply, Same(ScalarOp::kSubtract, one, a), Same(ScalarOp::kAdd, one, a));
        return Same(ScalarOp::kAtan2, a, Same(ScalarOp::kSqrt, product));
      }
      case UnaryOpType::GELU_ERF: {  // x (1 + erf(x / sqrt 2)) / 2
        const int e = Same(ScalarOp::kErf, Same(ScalarOp::kMultiply, a, Constant(std::sqrt(0.5), type)));
        const int half = Same(ScalarOp::kMultiply, a, Constant(0.5, type));
        return Same(ScalarOp::kMultiply, half, Same(ScalarOp::kAdd, e, Constant(1, type)));
      }
      case UnaryOpType::IS_INF:
        return Compare(ScalarOp::kEq, Same(ScalarOp::kAbs, a),
                       Constant(std::numeric_limits<double>::infinity(), type));
      case UnaryOpType::IS_NAN:
        return Compare(ScalarOp::kNe, a, a);
      case UnaryOpType::RELU:
        return Same(ScalarOp::kMaximum, a, Constant(0, type));
      case UnaryOpType::IS_FINITE:
        return Emit(ScalarOp::kIsFinite, DType::kPred, a);
      default:
        return Same(PlainUnary(op), a);
    }
  }
  static ScalarOp PlainUnary(UnaryOpType op) {
    switch (op) {
      case UnaryOpType::ABSOLUTE:
        return ScalarOp::kAbs;
      case UnaryOpType::BITWISE_NOT:
      case UnaryOpType::LOGICAL_NOT:
        return ScalarOp::kNot;
      case UnaryOpType::CBRT:
        return ScalarOp::kCbrt;
      case UnaryOpType::CEIL:
        return ScalarOp::kCeil;
      case UnaryOpType::COS:
        return ScalarOp::kCos;
      case UnaryOpType::COUNT_LEADING_ZEROS:
        return ScalarOp::kClz;
      case UnaryOpType::ERF:
        return ScalarOp::kErf;
      case UnaryOpType::EXPONENT:
        return ScalarOp::kExp;
      case UnaryOpType::EXPONENT_MINUS_ONE:
        return ScalarOp::kExpm1;
      case UnaryOpType::FLOOR:
        return ScalarOp::kFloor;
      case UnaryOpType::INVERSE:
        return ScalarOp::kInverse;
      case UnaryOpType::LOGARITHM:
        return ScalarOp::kLog;
      case UnaryOpType::LOGARITHM_ONE_PLUS:
        return ScalarOp::kLog1p;
      case UnaryOpType::NEARBY_INT:
        return ScalarOp::kRoundNearestEven;
      case UnaryOpType::POPCOUNT:
        return ScalarOp::kPopcnt;
      case UnaryOpType::ROUND:
        return ScalarOp::kRoundNearestAfz;
      case UnaryOpType::RSQRT:
        return ScalarOp::kRsqrt;
      case UnaryOpType::SIGMOID:
        return ScalarOp::kLogistic;
      case UnaryOpType::SIGNUM:
        return ScalarOp::kSign;
      case UnaryOpType::SIN:
        return ScalarOp::kSin;
      case UnaryOpType::SQRT:
        return ScalarOp::kSqrt;
      case UnaryOpType::SQUARE:
        return ScalarOp::kSquare;
      case UnaryOpType::TAN:
        return ScalarOp::kTan;
      case UnaryOpType::TANH:
        return ScalarOp::kTanh;
      case UnaryOpType::TRUNC:
        return ScalarOp::kTrunc;
      default:
        return ScalarOp::kNegate;
    }
  }

  int Binary(BinaryOpType op, int a, int b) {
    switch (op) {
      case BinaryOpType::EQUAL:
        return Compare(ScalarOp::kEq, a, b);
      case BinaryOpType::NOT_EQUAL:
        return Compare(ScalarOp::kNe, a, b);
      case BinaryOpType::LESS_THAN:
        return Compare(ScalarOp::kLt, a, b);
      case BinaryOpType::LESS_THAN_EQUAL:
        return Compare(ScalarOp::kLe, a, b);
      case BinaryOpType::GREATER_THAN:
        return Compare(ScalarOp::kGt, a, b);
      case BinaryOpType::GREATER_THAN_EQUAL:
        return Compare(ScalarOp::kGe, a, b);
      case BinaryOpType::BITWISE_XNOR:
        return Same(ScalarOp::kNot, Same(ScalarOp::kXor, a, b));
      case BinaryOpType::INV_STD_DEV_TO_VARIANCE:
        return Same(ScalarOp::kSubtract, Same(ScalarOp::kInverse, Same(ScalarOp::kSquare, a)), b);
      case BinaryOpType::VARIANCE_TO_INV_STD_DEV:
        return Same(ScalarOp::kRsqrt, Same(ScalarOp::kAdd, a, b));
      default:
        return Same(PlainBinary(op), a, b);
    }
  }
  static ScalarOp PlainBinary(BinaryOpType op) {
    switch (op) {
      case BinaryOpType::ATAN2:
        return ScalarOp::kAtan2;
      case BinaryOpType::BITWISE_AND:
      case BinaryOpType::LOGICAL_AND:
        return ScalarOp::kAnd;
      case BinaryOpType::BITWISE_OR:
      case BinaryOpType::LOGICAL_OR:
        return ScalarOp::kOr;
      case BinaryOpType::BITWISE_XOR:
        return ScalarOp::kXor;
      case BinaryOpType::DIVIDE:
        return ScalarOp::kDivide;
      case BinaryOpType::MAXIMUM:
        return ScalarOp::kMaximum;
      case BinaryOpType::MINIMUM:
        return ScalarOp::kMinimum;
      case BinaryOpType::MULTIPLY:
        return ScalarOp::kMultiply;
      case BinaryOpType::POWER:
        return ScalarOp::kPower;
      case BinaryOpType::REMAINDER:
        return ScalarOp::kRemainder;
      case BinaryOpType::SHIFT_LEFT:
        return ScalarOp::kShiftLeft;
      case BinaryOpType::SHIFT_RIGHT:
        return ScalarOp::kShiftRightLogical;
      case BinaryOpType::SHIFT_RIGHT_SIGN_EXTEND:
        return ScalarOp::kShiftRightArithmetic;
      case BinaryOpType::SUBTRACT:
        return ScalarOp::kSubtract;
      default:
        return ScalarOp::kAdd;
    }
  }

  std::size_t num_inputs_ = 0;
  std::vector<DType> types_;
  std::vector<ScalarConstant> constants_;
  std::vector<Instruction> code_;
  std::map<std::array<int, 5>, int> emitted_;
  std::unordered_map<const Node*, int> visited_;
};

}  // namespace

ScalarConstant ConstantOf(double value, DType type) {
  if (!IsFloat(type)) return IntegerConstant(static_cast<std::int64_t>(value), type);
  ScalarConstant constant;
  constant.type = type;
  const float narrow = F64ToF32Odd(value);
  if (type == DType::kF64) {
    SetBytes(&constant, value);
  } else if (type == DType::kF32) {
    SetBytes(&constant, static_cast<float>(value));
  } else if (type == DType::kBF16) {
    SetBytes(&constant, F32ToBF16(narrow));
  } else if (type == DType::kF8E8M0FNU) {
    SetBytes(&constant, F32ToE8M0(narrow));
  } else {
    VisitFormat(type, [&](auto format) { SetBytes(&constant, Encode<decltype(format)>(narrow)); });
  }
  return constant;
}

Expression Flatten(const popops::expr::Expr& expr, const std::vector<DType>& inputs) {
  return Flattener(inputs).Run(expr);
}

}  // namespace ipu_model
