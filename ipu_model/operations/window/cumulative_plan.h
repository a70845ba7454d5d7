// Cumulative operations (running sums, products, extremes) with lines cut over tiles.
#ifndef IPU_MODEL_OPERATIONS_WINDOW_CUMULATIVE_PLAN_H_
#define IPU_MODEL_OPERATIONS_WINDOW_CUMULATIVE_PLAN_H_

#include <cstdint>

#include "core/mapping/mapping.h"
#include "core/operation/operation.h"
#include "kernels/elementwise/program/expression.h"

namespace ipu_model {

// Whether lines with this combiner may be cut over tiles: there must be one result, of the type of the
// elements. The order of a reduction is implementation-defined, so every combiner counts as associative; XLA
// cuts lines as well.
bool MayBeCut(const Expression& combiner);

// Returns the halo to pass to SplitForWindows for a cumulative dimension of `length` elements, of which a
// tile has at least `lines` lines, so that lines are cut if that takes fewer cycles; otherwise returns
// `reach`.
std::int64_t CumulativeHalo(const TargetModel& target, const Expression& combiner, std::int64_t length,
                            std::int64_t lines, std::int64_t reach);

// Returns the three supersteps of a cumulative operation along `dimension`: every tile scans its chunks of
// `split`; one tile per line computes the value before each chunk (including the init) from the chunks'
// totals; every tile combines these values with its chunks. inputs: operand, init; outputs: result.
TilePlan CumulativePlan(const TargetModel& target, const Expression& combiner, const Grid& split,
                        int dimension, bool backwards);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_WINDOW_CUMULATIVE_PLAN_H_
