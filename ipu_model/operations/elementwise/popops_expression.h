// Converts the expression trees of popops to flat scalar programs.
#ifndef IPU_MODEL_OPERATIONS_ELEMENTWISE_POPOPS_EXPRESSION_H_
#define IPU_MODEL_OPERATIONS_ELEMENTWISE_POPOPS_EXPRESSION_H_

#include <vector>

#include "kernels/elementwise/program/expression.h"
#include "popops/Expr.hpp"

namespace ipu_model {

// Equal sub-expressions are computed once. Throws poplar_error for placeholders beyond `inputs` and for
// operands of different types.
Expression Flatten(const popops::expr::Expr& expr, const std::vector<DType>& inputs);

// Returns `value` as an element of `type`.
ScalarConstant ConstantOf(double value, DType type);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_ELEMENTWISE_POPOPS_EXPRESSION_H_
