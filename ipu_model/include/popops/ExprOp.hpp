// The operations of elementwise expressions, with the SDK's names.
#ifndef POPOPS_EXPROP_HPP
#define POPOPS_EXPROP_HPP

namespace popops::expr {

enum class UnaryOpType {
  ABSOLUTE,
  ASIN,
  BITWISE_NOT,
  CBRT,
  CEIL,
  COS,
  COUNT_LEADING_ZEROS,
  ERF,
  EXPONENT,
  EXPONENT_MINUS_ONE,
  FLOOR,
  GELU_ERF,
  INVERSE,
  IS_FINITE,
  IS_INF,
  IS_NAN,
  LOGARITHM,
  LOGARITHM_ONE_PLUS,
  LOGICAL_NOT,
  NEARBY_INT,
  NEGATE,
  POPCOUNT,
  RELU,
  ROUND,
  RSQRT,
  SIGMOID,
  SIGNUM,
  SIN,
  SQRT,
  SQUARE,
  TAN,
  TANH,
  TRUNC,
};

enum class BinaryOpType {
  ADD,
  ATAN2,
  BITWISE_AND,
  BITWISE_OR,
  BITWISE_XOR,
  BITWISE_XNOR,
  DIVIDE,
  EQUAL,
  GREATER_THAN,
  GREATER_THAN_EQUAL,
  INV_STD_DEV_TO_VARIANCE,  // x, epsilon: x^-2 - epsilon
  LESS_THAN,
  LESS_THAN_EQUAL,
  LOGICAL_AND,
  LOGICAL_OR,
  MAXIMUM,
  MINIMUM,
  MULTIPLY,
  NOT_EQUAL,
  POWER,
  REMAINDER,
  SHIFT_LEFT,
  SHIFT_RIGHT,              // shifts in zeros
  SHIFT_RIGHT_SIGN_EXTEND,  // shifts in copies of the sign bit
  SUBTRACT,
  VARIANCE_TO_INV_STD_DEV,  // x, epsilon: (x + epsilon)^-1/2
};

enum class TernaryOpType {
  CLAMP,   // x, lower, upper
  SELECT,  // on_true, on_false, predicate
};

}  // namespace popops::expr

#endif  // POPOPS_EXPROP_HPP
