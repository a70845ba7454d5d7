// Specialised inner loops of reductions: one associative operation, and the largest or smallest value with
// its index.
#ifndef IPU_MODEL_KERNELS_REDUCE_REDUCE_FUNCTIONS_H_
#define IPU_MODEL_KERNELS_REDUCE_REDUCE_FUNCTIONS_H_

#include <cstdint>

#include "kernels/elementwise/program/micro_op.h"

namespace ipu_model {

enum class ReduceOp : std::uint8_t { kAdd, kMultiply, kMaximum, kMinimum, kAnd, kOr, kXor };

struct ReduceFunctions {
  // Combines the n > 0 consecutive elements of p into *total. Float sums use 64 accumulators.
  void (*row)(const void* p, std::int64_t n, void* total) = nullptr;
  // total[i] = total[i] op p[i * stride], with the stride in elements.
  void (*lanes)(void* total, const void* p, std::int64_t stride, std::int64_t n) = nullptr;
  // Combines `rows` rows, in their order: total[i] = total[i] op p[i] op p[row_stride + i] op ...
  void (*columns)(void* total, const void* p, std::int64_t row_stride, std::int64_t rows,
                  std::int64_t n) = nullptr;
  // Combines each of `rows` rows of n > 0 consecutive elements, fewer than ShortRowElements, in their order:
  // total[r] = p[r * row_stride] op p[r * row_stride + 1] op ...
  void (*short_rows)(void* total, const void* p, std::int64_t row_stride, std::int64_t rows,
                     std::int64_t n) = nullptr;
  // Combines each of `rows` rows of n >= ShortRowElements elements as `row` does, and returns how many: a few
  // at the end are left. Null for operations whose rows are combined one by one.
  std::int64_t (*rows)(void* total, const void* p, std::int64_t row_stride, std::int64_t rows,
                       std::int64_t n) = nullptr;
  // row, lanes, columns and short_rows as block functions: the result is total, operand 0 is p, and
  // `immediate` is the stride of the lanes, the rows of columns, or the elements of short rows. Operand 1 of
  // columns and of short rows is the row's stride.
  MicroFunction row_call = nullptr, lanes_call = nullptr, columns_call = nullptr, short_rows_call = nullptr;
};

// Rows of fewer elements of `size` bytes are combined in order.
constexpr std::int64_t ShortRowElements(std::size_t size) { return 256 / static_cast<std::int64_t>(size); }

// The order of JAX's argmax and argmin: the better value wins, and NaN wins over all other values. Among
// equal values the smaller index wins; among NaN the first.
struct ArgumentFunctions {
  // Over n > 0 consecutive values; indices have any stride.
  void (*row)(const void* values, const void* indices, std::int64_t index_stride, std::int64_t n,
              void* best_value, void* best_index) = nullptr;
  // Combines (best_value[i], best_index[i]) with (values[i * stride], indices[i * index_stride]).
  void (*lanes)(void* best_value, void* best_index, const void* values, std::int64_t stride,
                const void* indices, std::int64_t index_stride, std::int64_t n) = nullptr;
  // The best of each of `rows` rows of n > 0 consecutive values, fewer than ShortRowElements, with the same
  // indices; returns how many: a few at the end are left. Null for other types than 32 bits.
  std::int64_t (*short_rows)(const void* values, std::int64_t row_stride, const void* indices,
                             std::int64_t index_stride, std::int64_t rows, std::int64_t n, void* best_values,
                             void* best_indices) = nullptr;
  // Combines the bests of n columns with `rows` rows, each with one index, in their order. Null for other
  // types than 32 bits.
  void (*columns)(void* best_values, void* best_indices, const void* values, std::int64_t row_stride,
                  const void* indices, std::int64_t index_stride, std::int64_t rows,
                  std::int64_t n) = nullptr;
  // row, lanes and columns as block functions: the result is best_value; the operands are the values, the
  // indices, best_index, which is written, and an ArgumentStrides. `immediate` is the number of rows.
  MicroFunction row_call = nullptr, lanes_call = nullptr, columns_call = nullptr;
};
struct ArgumentStrides {
  std::int64_t values, indices;
};

namespace avx2 {
ReduceFunctions FindReduce(ReduceOp op, RegisterType type);
// Both are called by FindReduce.
void FindShortRows(ReduceOp op, RegisterType type, ReduceFunctions* functions);
void FindRows(ReduceOp op, RegisterType type, ReduceFunctions* functions);
ArgumentFunctions FindArgument(bool largest, RegisterType value, RegisterType index);
// Called by FindArgument.
void FindArgumentRows(bool largest, RegisterType value, RegisterType index, ArgumentFunctions* functions);
}  // namespace avx2
namespace avx512 {
ReduceFunctions FindReduce(ReduceOp op, RegisterType type);
void FindShortRows(ReduceOp op, RegisterType type, ReduceFunctions* functions);
void FindRows(ReduceOp op, RegisterType type, ReduceFunctions* functions);
ArgumentFunctions FindArgument(bool largest, RegisterType value, RegisterType index);
// Called by FindArgument.
void FindArgumentRows(bool largest, RegisterType value, RegisterType index, ArgumentFunctions* functions);
}  // namespace avx512

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_REDUCE_REDUCE_FUNCTIONS_H_
