// Cumulative operations (running sums, products, extremes) with lines cut over tiles.
#ifndef JAX_IPU_OPERATIONS_CUMULATIVE_PLAN_H_
#define JAX_IPU_OPERATIONS_CUMULATIVE_PLAN_H_

#include <cstdint>

#include "pjrt_plugin/ipu_model/core/mapping.h"
#include "pjrt_plugin/ipu_model/core/operation.h"
#include "pjrt_plugin/ipu_model/kernels/expression.h"

namespace ipu_model {

// Whether chunks of a line may be combined on their own: one addition, multiplication, maximum, minimum, and
// or or. Sums and products of floats below 32 bits may not: element by element they stop growing where a
// chunk's total would still count, which is more than rounding.
bool IsAssociative(const Expression& combiner);

// What SplitForWindows has to take as the halo of a cumulative dimension of `length` elements, so that lines
// are cut where that pays; `reach` where it does not.
std::int64_t CumulativeHalo(std::int64_t length, std::int64_t reach);

// The three supersteps of a cumulative operation along `dimension`: every tile scans its chunks from
// `split`, one tile per line turns the chunks' totals into what stands before each chunk (the init included),
// every tile combines that with its chunks. inputs: operand, init; outputs: result. The combiner must be
// associative.
DevicePlan CumulativePlan(const TargetModel& target, const Expression& combiner, const Partition& split,
                          int dimension, bool backwards);

}  // namespace ipu_model

#endif  // JAX_IPU_OPERATIONS_CUMULATIVE_PLAN_H_
