// Cumulative operations (running sums, products, extremes) with lines cut over tiles.
#ifndef IPU_MODEL_OPERATIONS_WINDOW_CUMULATIVE_PLAN_H_
#define IPU_MODEL_OPERATIONS_WINDOW_CUMULATIVE_PLAN_H_

#include <cstdint>

#include "core/mapping.h"
#include "core/operation.h"
#include "kernels/elementwise/expression.h"

namespace ipu_model {

// Whether lines of this combiner may be cut over tiles: chunks have one result, of the type of their
// elements. The order of a reduction is the implementation's, so every combiner counts as associative; XLA
// cuts as well.
bool MayBeCut(const Expression& combiner);

// What SplitForWindows has to take as the halo of a cumulative dimension of `length` elements, so that lines
// are cut where that pays; `reach` where it does not.
std::int64_t CumulativeHalo(std::int64_t length, std::int64_t reach);

// The three supersteps of a cumulative operation along `dimension`: every tile scans its chunks from
// `split`, one tile per line turns the chunks' totals into what stands before each chunk (the init included),
// every tile combines that with its chunks. inputs: operand, init; outputs: result.
DevicePlan CumulativePlan(const TargetModel& target, const Expression& combiner, const Partition& split,
                          int dimension, bool backwards);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_WINDOW_CUMULATIVE_PLAN_H_
