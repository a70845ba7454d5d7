// popops::map over expressions, and one function for every operation. Operands broadcast like NumPy's.
// Results are clones of the operand that is spread best. `InPlace` overwrites the first operand,
// `WithOutput` writes to `out`. Throws poplar::poplar_error for shapes that do not broadcast and operations
// that are not defined for a type.
#ifndef POPOPS_ELEMENTWISE_HPP
#define POPOPS_ELEMENTWISE_HPP

#include <vector>

#include "poplar/Graph.hpp"
#include "poplar/OptionFlags.hpp"
#include "poplar/Program.hpp"
#include "popops/Expr.hpp"

namespace popops {

poplar::Tensor map(poplar::Graph& graph, const expr::Expr& expr, const std::vector<poplar::Tensor>& ts,
                   poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {},
                   const poplar::OptionFlags& options = {});
void mapInPlace(poplar::Graph& graph, const expr::Expr& expr, const std::vector<poplar::Tensor>& ts,
                poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {},
                const poplar::OptionFlags& options = {});
void mapWithOutput(poplar::Graph& graph, const expr::Expr& expr, const std::vector<poplar::Tensor>& ts,
                   const poplar::Tensor& out, poplar::program::Sequence& prog,
                   const poplar::DebugContext& debugContext = {}, const poplar::OptionFlags& options = {});

inline poplar::Tensor map(poplar::Graph& graph, expr::UnaryOpType op, const poplar::Tensor& t,
                          poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {},
                          const poplar::OptionFlags& options = {}) {
  return map(graph, expr::UnaryOp(op, expr::_1), {t}, prog, debugContext, options);
}
inline poplar::Tensor map(poplar::Graph& graph, expr::BinaryOpType op, const poplar::Tensor& a,
                          const poplar::Tensor& b, poplar::program::Sequence& prog,
                          const poplar::DebugContext& debugContext = {},
                          const poplar::OptionFlags& options = {}) {
  return map(graph, expr::BinaryOp(op, expr::_1, expr::_2), {a, b}, prog, debugContext, options);
}
inline poplar::Tensor map(poplar::Graph& graph, expr::TernaryOpType op, const poplar::Tensor& a,
                          const poplar::Tensor& b, const poplar::Tensor& c, poplar::program::Sequence& prog,
                          const poplar::DebugContext& debugContext = {},
                          const poplar::OptionFlags& options = {}) {
  return map(graph, expr::TernaryOp(op, expr::_1, expr::_2, expr::_3), {a, b, c}, prog, debugContext,
             options);
}

#define POPOPS_UNARY(NAME, OP)                                                                               \
  inline poplar::Tensor NAME(poplar::Graph& graph, const poplar::Tensor& a, poplar::program::Sequence& prog, \
                             const poplar::DebugContext& debugContext = {},                                  \
                             const poplar::OptionFlags& options = {}) {                                      \
    return map(graph, expr::UnaryOpType::OP, a, prog, debugContext, options);                                \
  }                                                                                                          \
  inline void NAME##WithOutput(poplar::Graph& graph, const poplar::Tensor& a, const poplar::Tensor& out,     \
                               poplar::program::Sequence& prog,                                              \
                               const poplar::DebugContext& debugContext = {},                                \
                               const poplar::OptionFlags& options = {}) {                                    \
    mapWithOutput(graph, expr::UnaryOp(expr::UnaryOpType::OP, expr::_1), {a}, out, prog, debugContext,       \
                  options);                                                                                  \
  }                                                                                                          \
  inline void NAME##InPlace(poplar::Graph& graph, const poplar::Tensor& a, poplar::program::Sequence& prog,  \
                            const poplar::DebugContext& debugContext = {},                                   \
                            const poplar::OptionFlags& options = {}) {                                       \
    mapInPlace(graph, expr::UnaryOp(expr::UnaryOpType::OP, expr::_1), {a}, prog, debugContext, options);     \
  }
#define POPOPS_BINARY(NAME, OP)                                                                              \
  inline poplar::Tensor NAME(poplar::Graph& graph, const poplar::Tensor& a, const poplar::Tensor& b,         \
                             poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {}, \
                             const poplar::OptionFlags& options = {}) {                                      \
    return map(graph, expr::BinaryOpType::OP, a, b, prog, debugContext, options);                            \
  }                                                                                                          \
  inline void NAME##WithOutput(poplar::Graph& graph, const poplar::Tensor& a, const poplar::Tensor& b,       \
                               const poplar::Tensor& out, poplar::program::Sequence& prog,                   \
                               const poplar::DebugContext& debugContext = {},                                \
                               const poplar::OptionFlags& options = {}) {                                    \
    mapWithOutput(graph, expr::BinaryOp(expr::BinaryOpType::OP, expr::_1, expr::_2), {a, b}, out, prog,      \
                  debugContext, options);                                                                    \
  }                                                                                                          \
  inline void NAME##InPlace(poplar::Graph& graph, const poplar::Tensor& a, const poplar::Tensor& b,          \
                            poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {},  \
                            const poplar::OptionFlags& options = {}) {                                       \
    mapInPlace(graph, expr::BinaryOp(expr::BinaryOpType::OP, expr::_1, expr::_2), {a, b}, prog,              \
               debugContext, options);                                                                       \
  }
POPOPS_UNARY(abs, ABSOLUTE)
POPOPS_UNARY(asin, ASIN)
POPOPS_UNARY(bitwiseNot, BITWISE_NOT)
POPOPS_UNARY(cbrt, CBRT)
POPOPS_UNARY(ceil, CEIL)
POPOPS_UNARY(countLeadingZeros, COUNT_LEADING_ZEROS)
POPOPS_UNARY(cos, COS)
POPOPS_UNARY(erf, ERF)
POPOPS_UNARY(exp, EXPONENT)
POPOPS_UNARY(expm1, EXPONENT_MINUS_ONE)
POPOPS_UNARY(floor, FLOOR)
POPOPS_UNARY(geluErf, GELU_ERF)
POPOPS_UNARY(inv, INVERSE)
POPOPS_UNARY(isFinite, IS_FINITE)
POPOPS_UNARY(isInf, IS_INF)
POPOPS_UNARY(isNaN, IS_NAN)
POPOPS_UNARY(log, LOGARITHM)
POPOPS_UNARY(log1p, LOGARITHM_ONE_PLUS)
POPOPS_UNARY(logicalNot, LOGICAL_NOT)
POPOPS_UNARY(nearbyInt, NEARBY_INT)
POPOPS_UNARY(neg, NEGATE)
POPOPS_UNARY(popcount, POPCOUNT)
POPOPS_UNARY(relu, RELU)
POPOPS_UNARY(round, ROUND)
POPOPS_UNARY(rsqrt, RSQRT)
POPOPS_UNARY(sigmoid, SIGMOID)
POPOPS_UNARY(signum, SIGNUM)
POPOPS_UNARY(sin, SIN)
POPOPS_UNARY(sqrt, SQRT)
POPOPS_UNARY(square, SQUARE)
POPOPS_UNARY(tan, TAN)
POPOPS_UNARY(tanh, TANH)
POPOPS_UNARY(trunc, TRUNC)
POPOPS_BINARY(add, ADD)
POPOPS_BINARY(atan2, ATAN2)
POPOPS_BINARY(bitwiseAnd, BITWISE_AND)
POPOPS_BINARY(bitwiseOr, BITWISE_OR)
POPOPS_BINARY(bitwiseXor, BITWISE_XOR)
POPOPS_BINARY(bitwiseXnor, BITWISE_XNOR)
POPOPS_BINARY(div, DIVIDE)
POPOPS_BINARY(eq, EQUAL)
POPOPS_BINARY(gt, GREATER_THAN)
POPOPS_BINARY(gteq, GREATER_THAN_EQUAL)
POPOPS_BINARY(invStdDevToVariance, INV_STD_DEV_TO_VARIANCE)
POPOPS_BINARY(lt, LESS_THAN)
POPOPS_BINARY(lteq, LESS_THAN_EQUAL)
POPOPS_BINARY(logicalAnd, LOGICAL_AND)
POPOPS_BINARY(logicalOr, LOGICAL_OR)
POPOPS_BINARY(max, MAXIMUM)
POPOPS_BINARY(min, MINIMUM)
POPOPS_BINARY(mul, MULTIPLY)
POPOPS_BINARY(neq, NOT_EQUAL)
POPOPS_BINARY(pow, POWER)
POPOPS_BINARY(rem, REMAINDER)
POPOPS_BINARY(shiftLeft, SHIFT_LEFT)
POPOPS_BINARY(shiftRight, SHIFT_RIGHT)
POPOPS_BINARY(shiftRightSignExtend, SHIFT_RIGHT_SIGN_EXTEND)
POPOPS_BINARY(sub, SUBTRACT)
POPOPS_BINARY(varianceToInvStdDev, VARIANCE_TO_INV_STD_DEV)
#undef POPOPS_UNARY
#undef POPOPS_BINARY

inline poplar::Tensor select(poplar::Graph& graph, const poplar::Tensor& onTrue,
                             const poplar::Tensor& onFalse, const poplar::Tensor& predicate,
                             poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {},
                             const poplar::OptionFlags& options = {}) {
  return map(graph, expr::TernaryOpType::SELECT, onTrue, onFalse, predicate, prog, debugContext, options);
}
inline poplar::Tensor clamp(poplar::Graph& graph, const poplar::Tensor& a, const poplar::Tensor& lower,
                            const poplar::Tensor& upper, poplar::program::Sequence& prog,
                            const poplar::DebugContext& debugContext = {},
                            const poplar::OptionFlags& options = {}) {
  return map(graph, expr::TernaryOpType::CLAMP, a, lower, upper, prog, debugContext, options);
}

}  // namespace popops

#endif  // POPOPS_ELEMENTWISE_HPP
