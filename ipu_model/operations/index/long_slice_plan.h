// Dynamic slices and updates whose window no tile can hold.
#ifndef IPU_MODEL_OPERATIONS_INDEX_LONG_SLICE_PLAN_H_
#define IPU_MODEL_OPERATIONS_INDEX_LONG_SLICE_PLAN_H_

#include <cstdint>

#include "core/operation.h"

namespace ipu_model {

// Whether a window of `window` in `whole` is too long to be gathered on a tile that works on all of its
// dynamic dimensions.
bool IsLongSlice(const Shape& whole, const Shape& window, DType type, std::int64_t bytes_per_tile,
                 unsigned num_tiles);

// Exchanges are fixed at compile time, so the data is shifted by one digit of the start per superstep: each
// vertex reads the few places that its elements may come from and keeps one. Everything stays spread over all
// tiles. Inputs: operand, one scalar start per dimension; output: the slice.
DevicePlan PlanLongSlice(const Shape& operand, const Shape& window, DType type, unsigned num_tiles);

// The reverse. Inputs: operand, update, one scalar start per dimension; output: the operand with the update,
// on `vertices`.
DevicePlan PlanLongUpdate(const Shape& operand, const Shape& update, DType type, std::vector<Vertex> vertices,
                          unsigned num_tiles);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_INDEX_LONG_SLICE_PLAN_H_
