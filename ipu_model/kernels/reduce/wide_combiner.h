// Combiners of half-precision values with accumulators in f32: what XLA gets from trees of sums.
#ifndef IPU_MODEL_KERNELS_REDUCE_WIDE_COMBINER_H_
#define IPU_MODEL_KERNELS_REDUCE_WIDE_COMBINER_H_

#include <optional>

#include "kernels/elementwise/expression.h"

namespace ipu_model {

constexpr bool IsHalf(DType type) { return type == DType::kF16 || type == DType::kBF16; }

// The expression with every f16 and bf16 register in f32, roundings between operations left out. Nothing when
// it has no such register, or an operation that sees the bits of one.
std::optional<Expression> WideExpression(const Expression& expression);

// y = convert(x).
Expression ConvertExpression(DType from, DType to);

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_REDUCE_WIDE_COMBINER_H_
