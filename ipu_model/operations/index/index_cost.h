// Tile cycles of slices, gather and scatter. Source: PopLibs, popops::multiSlice and multiUpdateAdd in
// lib/popops/popopsCycleEstimators.cpp; the 3 cycles of wrapping an index are counted from the instructions.
#ifndef IPU_MODEL_OPERATIONS_INDEX_INDEX_COST_H_
#define IPU_MODEL_OPERATIONS_INDEX_INDEX_COST_H_

#include <cstdint>

#include "core/target_model.h"

namespace ipu_model {

// A vertex that looks up `rows` windows of `elements` elements, of which the six workers share the windows:
// 30 cycles, and 19 and 2 for every vector for each window. `wraps`: index components that are wrapped.
std::uint64_t SliceCycles(const TargetModel& target, DType type, std::int64_t rows, std::int64_t elements,
                          int wraps);

// A vertex that copies `elements` elements of one slice.
std::uint64_t SliceCopyCycles(const TargetModel& target, DType type, std::int64_t elements);

// A vertex that writes `elements` elements of a slice over its own.
std::uint64_t UpdateCycles(const TargetModel& target, DType type, std::int64_t elements);

// A vertex that sees `rows` windows of `window` elements and applies the share `inside` of them: 8 cycles to
// reject a window, 19 and 3 for every vector to apply one. Every worker sees all windows and applies its own.
std::uint64_t ScatterCycles(const TargetModel& target, DType type, double rows, double inside, double window,
                            int wraps);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_INDEX_INDEX_COST_H_
