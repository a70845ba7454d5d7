// Combiners of f16 and bf16 values with accumulators in f32, which match the accuracy of XLA's trees of sums.
#ifndef IPU_MODEL_KERNELS_REDUCE_WIDE_COMBINER_H_
#define IPU_MODEL_KERNELS_REDUCE_WIDE_COMBINER_H_

#include <optional>

#include "kernels/elementwise/program/expression.h"

namespace ipu_model {

constexpr bool IsHalf(DType type) { return type == DType::kF16 || type == DType::kBF16; }

// Returns the expression with every f16 and bf16 register in f32, without rounding between operations.
// Returns nothing if there is no such register, or if an operation reads the bits of one.
std::optional<Expression> WideExpression(const Expression& expression);

// y = convert(x).
Expression ConvertExpression(DType from, DType to);

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_REDUCE_WIDE_COMBINER_H_
