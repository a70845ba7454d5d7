// Dynamic slices and updates whose window does not fit on a tile.
#ifndef IPU_MODEL_OPERATIONS_INDEX_LONG_SLICE_PLAN_H_
#define IPU_MODEL_OPERATIONS_INDEX_LONG_SLICE_PLAN_H_

#include <cstdint>

#include "core/operation.h"

namespace ipu_model {

// Whether a window of `window` in `whole` is too long to be gathered on a tile that holds all of its dynamic
// dimensions.
bool IsLongSlice(const Shape& whole, const Shape& window, DType type, std::int64_t bytes_per_tile,
                 unsigned num_tiles);

// Exchanges are fixed at compile time, so each superstep shifts the data by one digit of the start: each
// vertex reads the few positions that its elements may come from, and keeps one. All data stays spread over
// all tiles. Inputs: operand, one scalar start per dimension; output: the slice.
TilePlan PlanLongSlice(const Shape& operand, const Shape& window, DType type, unsigned num_tiles);

// The inverse. Inputs: operand, update, one scalar start per dimension; output: the operand with the update,
// on `vertices`.
TilePlan PlanLongUpdate(const Shape& operand, const Shape& update, DType type, std::vector<Vertex> vertices,
                        unsigned num_tiles);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_INDEX_LONG_SLICE_PLAN_H_
