// Dynamic slices and updates whose window is too long for one tile.
#ifndef IPU_MODEL_OPERATIONS_INDEX_LONG_SLICE_PLAN_H_
#define IPU_MODEL_OPERATIONS_INDEX_LONG_SLICE_PLAN_H_

#include <cstdint>

#include "core/operation/operation.h"
#include "core/target/target_model.h"
#include "hlo/Expansion.hpp"

namespace ipu_model {

// Whether a window of `window` in `whole` is too long to be gathered on a tile that holds all of its dynamic
// dimensions, or is copied there for longer than it is shifted over all tiles.
bool IsLongSlice(const Shape& whole, const Shape& window, DType type, const TargetModel& target,
                 unsigned num_tiles);

struct LongSlice {
  TilePlan plan;
  std::vector<hlo::SliceDigit> digits;  // by superstep
};

// Exchanges are fixed at compile time, so each superstep shifts the data by one digit of the start: each
// vertex reads the few positions that its elements may come from, and keeps one. All data stays spread over
// all tiles. `limit`: the bytes of a tile for temporaries and buffers, or 0; with less memory, a digit takes
// several supersteps. Inputs: operand, one scalar start per dimension; output: the slice.
LongSlice PlanLongSlice(const Shape& operand, const Shape& window, DType type, unsigned num_tiles,
                        std::int64_t limit);

// The inverse. Inputs: operand, update, one scalar start per dimension; output: the operand with the update,
// on `vertices`.
LongSlice PlanLongUpdate(const Shape& operand, const Shape& update, DType type, std::vector<Vertex> vertices,
                         unsigned num_tiles, std::int64_t limit);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_INDEX_LONG_SLICE_PLAN_H_
