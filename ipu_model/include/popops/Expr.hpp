// Elementwise expressions: trees of operations over placeholders and constants. A sub-expression may be used
// several times; it is computed once.
#ifndef POPOPS_EXPR_HPP
#define POPOPS_EXPR_HPP

#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "poplar/Type.hpp"
#include "popops/ExprOp.hpp"

namespace popops::expr {

// A handle of a node of the tree; the classes below differ only in their constructors.
class Expr {
 public:
  struct Node {
    enum class Kind { kConstant, kPlaceHolder, kCast, kUnary, kBinary, kTernary } kind = Kind::kConstant;
    int op = 0;                // UnaryOpType, BinaryOpType or TernaryOpType
    unsigned index = 0;        // placeholder, from 1
    poplar::Type type;         // of a constant, or cast to
    double real = 0;           // constant of a float type
    std::int64_t integer = 0;  // constant of an integer type
    std::vector<std::shared_ptr<const Node>> operands;
  };
  explicit Expr(Node node) : node_(std::make_shared<const Node>(std::move(node))) {}
  const std::shared_ptr<const Node>& node() const { return node_; }

 private:
  std::shared_ptr<const Node> node_;
};
using Any = Expr;

// The element type follows C++: bool, int and unsigned are BOOL, INT and UNSIGNED_INT, floating point is
// FLOAT. Beside an operand of another float (integer) type, a float (integer) constant takes that type.
class Const : public Expr {
 public:
  template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>>
  Const(T value) : Expr(Make(value)) {}
  Const(double value, poplar::Type type) : Expr(WithType(Make(value), type)) {}

 private:
  static Node WithType(Node node, poplar::Type type) {
    node.type = type;
    return node;
  }
  template <typename T>
  static Node Make(T value) {
    Node node;
    node.kind = Node::Kind::kConstant;
    node.type = std::is_same_v<T, bool>       ? poplar::BOOL
                : std::is_floating_point_v<T> ? poplar::FLOAT
                : sizeof(T) == 8      ? (std::is_signed_v<T> ? poplar::LONGLONG : poplar::UNSIGNED_LONGLONG)
                : std::is_signed_v<T> ? poplar::INT
                                      : poplar::UNSIGNED_INT;
    node.real = static_cast<double>(value);
    node.integer = static_cast<std::int64_t>(value);
    return node;
  }
};
inline Const ConstHalf(float value) { return Const(static_cast<double>(value), poplar::HALF); }

// The index-th tensor of the call, from 1.
class PlaceHolder : public Expr {
 public:
  explicit PlaceHolder(unsigned index) : Expr(Make(index)) {}

 private:
  static Node Make(unsigned index) {
    Node node;
    node.kind = Node::Kind::kPlaceHolder;
    node.index = index;
    return node;
  }
};
inline const PlaceHolder _1(1);
inline const PlaceHolder _2(2);
inline const PlaceHolder _3(3);
inline const PlaceHolder _4(4);
inline const PlaceHolder _5(5);
inline const PlaceHolder _6(6);
inline const PlaceHolder _7(7);
inline const PlaceHolder _8(8);
inline const PlaceHolder _9(9);
inline const PlaceHolder _10(10);
inline const PlaceHolder _11(11);
inline const PlaceHolder _12(12);
inline const PlaceHolder _13(13);
inline const PlaceHolder _14(14);
inline const PlaceHolder _15(15);
inline const PlaceHolder _16(16);
inline const PlaceHolder _17(17);
inline const PlaceHolder _18(18);
inline const PlaceHolder _19(19);
inline const PlaceHolder _20(20);

class Cast : public Expr {
 public:
  Cast(const Expr& operand, poplar::Type type) : Expr(Make(operand, type)) {}

 private:
  static Node Make(const Expr& operand, poplar::Type type) {
    Node node;
    node.kind = Node::Kind::kCast;
    node.type = type;
    node.operands = {operand.node()};
    return node;
  }
};

class UnaryOp : public Expr {
 public:
  UnaryOp(UnaryOpType op, const Expr& a) : Expr(Make(op, a)) {}

 private:
  static Node Make(UnaryOpType op, const Expr& a) {
    Node node;
    node.kind = Node::Kind::kUnary;
    node.op = static_cast<int>(op);
    node.operands = {a.node()};
    return node;
  }
};
class BinaryOp : public Expr {
 public:
  BinaryOp(BinaryOpType op, const Expr& a, const Expr& b) : Expr(Make(op, a, b)) {}

 private:
  static Node Make(BinaryOpType op, const Expr& a, const Expr& b) {
    Node node;
    node.kind = Node::Kind::kBinary;
    node.op = static_cast<int>(op);
    node.operands = {a.node(), b.node()};
    return node;
  }
};
class TernaryOp : public Expr {
 public:
  TernaryOp(TernaryOpType op, const Expr& a, const Expr& b, const Expr& c) : Expr(Make(op, a, b, c)) {}

 private:
  static Node Make(TernaryOpType op, const Expr& a, const Expr& b, const Expr& c) {
    Node node;
    node.kind = Node::Kind::kTernary;
    node.op = static_cast<int>(op);
    node.operands = {a.node(), b.node(), c.node()};
    return node;
  }
};

inline UnaryOp Abs(const Expr& a) { return {UnaryOpType::ABSOLUTE, a}; }
inline UnaryOp Asin(const Expr& a) { return {UnaryOpType::ASIN, a}; }
inline UnaryOp BitwiseNot(const Expr& a) { return {UnaryOpType::BITWISE_NOT, a}; }
inline UnaryOp Cbrt(const Expr& a) { return {UnaryOpType::CBRT, a}; }
inline UnaryOp Ceil(const Expr& a) { return {UnaryOpType::CEIL, a}; }
inline UnaryOp Cos(const Expr& a) { return {UnaryOpType::COS, a}; }
inline UnaryOp Erf(const Expr& a) { return {UnaryOpType::ERF, a}; }
inline UnaryOp Exp(const Expr& a) { return {UnaryOpType::EXPONENT, a}; }
inline UnaryOp Expm1(const Expr& a) { return {UnaryOpType::EXPONENT_MINUS_ONE, a}; }
inline UnaryOp Floor(const Expr& a) { return {UnaryOpType::FLOOR, a}; }
inline UnaryOp GeluErf(const Expr& a) { return {UnaryOpType::GELU_ERF, a}; }
inline UnaryOp Inv(const Expr& a) { return {UnaryOpType::INVERSE, a}; }
inline UnaryOp IsFinite(const Expr& a) { return {UnaryOpType::IS_FINITE, a}; }
inline UnaryOp IsInf(const Expr& a) { return {UnaryOpType::IS_INF, a}; }
inline UnaryOp IsNaN(const Expr& a) { return {UnaryOpType::IS_NAN, a}; }
inline UnaryOp Log(const Expr& a) { return {UnaryOpType::LOGARITHM, a}; }
inline UnaryOp Log1p(const Expr& a) { return {UnaryOpType::LOGARITHM_ONE_PLUS, a}; }
inline UnaryOp NearbyInt(const Expr& a) { return {UnaryOpType::NEARBY_INT, a}; }
inline UnaryOp Not(const Expr& a) { return {UnaryOpType::LOGICAL_NOT, a}; }
inline UnaryOp Neg(const Expr& a) { return {UnaryOpType::NEGATE, a}; }
inline UnaryOp Relu(const Expr& a) { return {UnaryOpType::RELU, a}; }
inline UnaryOp Round(const Expr& a) { return {UnaryOpType::ROUND, a}; }
inline UnaryOp Rsqrt(const Expr& a) { return {UnaryOpType::RSQRT, a}; }
inline UnaryOp Sigmoid(const Expr& a) { return {UnaryOpType::SIGMOID, a}; }
inline UnaryOp Signum(const Expr& a) { return {UnaryOpType::SIGNUM, a}; }
inline UnaryOp Sin(const Expr& a) { return {UnaryOpType::SIN, a}; }
inline UnaryOp Sqrt(const Expr& a) { return {UnaryOpType::SQRT, a}; }
inline UnaryOp Square(const Expr& a) { return {UnaryOpType::SQUARE, a}; }
inline UnaryOp Tan(const Expr& a) { return {UnaryOpType::TAN, a}; }
inline UnaryOp Tanh(const Expr& a) { return {UnaryOpType::TANH, a}; }
inline UnaryOp Trunc(const Expr& a) { return {UnaryOpType::TRUNC, a}; }

inline BinaryOp Add(const Expr& a, const Expr& b) { return {BinaryOpType::ADD, a, b}; }
inline BinaryOp Atan2(const Expr& a, const Expr& b) { return {BinaryOpType::ATAN2, a, b}; }
inline BinaryOp BitwiseAnd(const Expr& a, const Expr& b) { return {BinaryOpType::BITWISE_AND, a, b}; }
inline BinaryOp BitwiseOr(const Expr& a, const Expr& b) { return {BinaryOpType::BITWISE_OR, a, b}; }
inline BinaryOp BitwiseXor(const Expr& a, const Expr& b) { return {BinaryOpType::BITWISE_XOR, a, b}; }
inline BinaryOp BitwiseXnor(const Expr& a, const Expr& b) { return {BinaryOpType::BITWISE_XNOR, a, b}; }
inline BinaryOp Divide(const Expr& a, const Expr& b) { return {BinaryOpType::DIVIDE, a, b}; }
inline BinaryOp Equal(const Expr& a, const Expr& b) { return {BinaryOpType::EQUAL, a, b}; }
inline BinaryOp Gt(const Expr& a, const Expr& b) { return {BinaryOpType::GREATER_THAN, a, b}; }
inline BinaryOp Gte(const Expr& a, const Expr& b) { return {BinaryOpType::GREATER_THAN_EQUAL, a, b}; }
inline BinaryOp InvStdDevToVariance(const Expr& a, const Expr& b) {
  return {BinaryOpType::INV_STD_DEV_TO_VARIANCE, a, b};
}
inline BinaryOp Lt(const Expr& a, const Expr& b) { return {BinaryOpType::LESS_THAN, a, b}; }
inline BinaryOp Lte(const Expr& a, const Expr& b) { return {BinaryOpType::LESS_THAN_EQUAL, a, b}; }
inline BinaryOp And(const Expr& a, const Expr& b) { return {BinaryOpType::LOGICAL_AND, a, b}; }
inline BinaryOp Or(const Expr& a, const Expr& b) { return {BinaryOpType::LOGICAL_OR, a, b}; }
inline BinaryOp Max(const Expr& a, const Expr& b) { return {BinaryOpType::MAXIMUM, a, b}; }
inline BinaryOp Min(const Expr& a, const Expr& b) { return {BinaryOpType::MINIMUM, a, b}; }
inline BinaryOp Mul(const Expr& a, const Expr& b) { return {BinaryOpType::MULTIPLY, a, b}; }
inline BinaryOp NotEqual(const Expr& a, const Expr& b) { return {BinaryOpType::NOT_EQUAL, a, b}; }
inline BinaryOp Pow(const Expr& a, const Expr& b) { return {BinaryOpType::POWER, a, b}; }
inline BinaryOp Rem(const Expr& a, const Expr& b) { return {BinaryOpType::REMAINDER, a, b}; }
inline BinaryOp Shl(const Expr& a, const Expr& b) { return {BinaryOpType::SHIFT_LEFT, a, b}; }
inline BinaryOp Shr(const Expr& a, const Expr& b) { return {BinaryOpType::SHIFT_RIGHT, a, b}; }
inline BinaryOp ShrSE(const Expr& a, const Expr& b) { return {BinaryOpType::SHIFT_RIGHT_SIGN_EXTEND, a, b}; }
inline BinaryOp Sub(const Expr& a, const Expr& b) { return {BinaryOpType::SUBTRACT, a, b}; }
inline BinaryOp VarianceToInvStdDev(const Expr& a, const Expr& b) {
  return {BinaryOpType::VARIANCE_TO_INV_STD_DEV, a, b};
}

inline TernaryOp Select(const Expr& on_true, const Expr& on_false, const Expr& predicate) {
  return {TernaryOpType::SELECT, on_true, on_false, predicate};
}
inline TernaryOp Clamp(const Expr& x, const Expr& lower, const Expr& upper) {
  return {TernaryOpType::CLAMP, x, lower, upper};
}

inline UnaryOp operator-(const Expr& a) { return Neg(a); }
inline UnaryOp operator!(const Expr& a) { return Not(a); }
inline UnaryOp operator~(const Expr& a) { return BitwiseNot(a); }
inline BinaryOp operator+(const Expr& a, const Expr& b) { return {BinaryOpType::ADD, a, b}; }
inline BinaryOp operator-(const Expr& a, const Expr& b) { return {BinaryOpType::SUBTRACT, a, b}; }
inline BinaryOp operator*(const Expr& a, const Expr& b) { return {BinaryOpType::MULTIPLY, a, b}; }
inline BinaryOp operator/(const Expr& a, const Expr& b) { return {BinaryOpType::DIVIDE, a, b}; }
inline BinaryOp operator%(const Expr& a, const Expr& b) { return {BinaryOpType::REMAINDER, a, b}; }
inline BinaryOp operator&(const Expr& a, const Expr& b) { return {BinaryOpType::BITWISE_AND, a, b}; }
inline BinaryOp operator|(const Expr& a, const Expr& b) { return {BinaryOpType::BITWISE_OR, a, b}; }
inline BinaryOp operator^(const Expr& a, const Expr& b) { return {BinaryOpType::BITWISE_XOR, a, b}; }
inline BinaryOp operator<<(const Expr& a, const Expr& b) { return {BinaryOpType::SHIFT_LEFT, a, b}; }
inline BinaryOp operator>>(const Expr& a, const Expr& b) { return {BinaryOpType::SHIFT_RIGHT, a, b}; }
inline BinaryOp operator==(const Expr& a, const Expr& b) { return {BinaryOpType::EQUAL, a, b}; }
inline BinaryOp operator!=(const Expr& a, const Expr& b) { return {BinaryOpType::NOT_EQUAL, a, b}; }
inline BinaryOp operator<(const Expr& a, const Expr& b) { return {BinaryOpType::LESS_THAN, a, b}; }
inline BinaryOp operator<=(const Expr& a, const Expr& b) { return {BinaryOpType::LESS_THAN_EQUAL, a, b}; }
inline BinaryOp operator>(const Expr& a, const Expr& b) { return {BinaryOpType::GREATER_THAN, a, b}; }
inline BinaryOp operator>=(const Expr& a, const Expr& b) { return {BinaryOpType::GREATER_THAN_EQUAL, a, b}; }
inline BinaryOp operator&&(const Expr& a, const Expr& b) { return {BinaryOpType::LOGICAL_AND, a, b}; }
inline BinaryOp operator||(const Expr& a, const Expr& b) { return {BinaryOpType::LOGICAL_OR, a, b}; }

}  // namespace popops::expr

#endif  // POPOPS_EXPR_HPP
