// Tile cycles of slices, gather and scatter. Source: PopLibs, getMultiSliceCycleEstimate and
// getMultiUpdateOpCycleEstimate in lib/popops/PerformanceEstimation.cpp and getDynamicSlice1DEstimate in
// lib/popops/popopsCycleEstimators.cpp; the 3 cycles of wrapping an index are counted from the instructions.
#ifndef IPU_MODEL_OPERATIONS_INDEX_INDEX_COST_H_
#define IPU_MODEL_OPERATIONS_INDEX_INDEX_COST_H_

#include <cstdint>

#include "core/target/target_model.h"

namespace ipu_model {

// A vertex that looks up `rows` windows of `elements` elements, of which the six workers share the windows,
// or the only window: 30 cycles, and 19 and those of every vector for each window. `wraps`: index components
// that are wrapped.
std::uint64_t SliceCycles(const TargetModel& target, DType type, std::int64_t rows, std::int64_t elements,
                          int wraps);

// A vertex that copies `elements` elements of one slice, or writes them over its own (DynamicSlice1D,
// DynamicUpdateSlice1D).
std::uint64_t DynamicSliceCycles(const TargetModel& target, DType type, std::int64_t elements);

// What a scatter does with an update, and PopLibs' vertex for it. Sums are updates with a scale of 1.
enum class UpdateKind {
  kReplace,  // MultiUpdate
  kAdd,      // ScaledMultiUpdateOp
  kOther     // MultiUpdateOp
};

// A vertex that sees `rows` windows of `window` elements and applies the share `inside` of them: every worker
// sees all windows, rejects most in a few cycles, and applies its own.
std::uint64_t ScatterCycles(const TargetModel& target, UpdateKind kind, DType type, double rows,
                            double inside, double window, int wraps);

// What such a vertex of kReplace takes more to mark the elements that it writes, a byte each.
std::uint64_t MarkCycles(const TargetModel& target, double rows, double inside, double window);

// A vertex that takes `results` elements from the last of `shares` partial results that is marked there, or
// from the operand where none is: a load of a mark, a branch and a step for each share, and two copies and a
// loop for each element. An estimate from these instructions.
std::uint64_t LastOfScatterCycles(const TargetModel& target, DType type, std::int64_t shares,
                                  std::int64_t results);

// The vertices of a gather in rounds (gather_rounds.h), whose cycles are counted from the instructions of
// their loops; indices are taken to be spread evenly. A vertex that puts `indices` indices into the order of
// `buckets` blocks: each worker has its own indices and buckets, and goes twice over both. 24 instructions
// find the block of an index, 3 count, 6 store its entry.
std::uint64_t OrderLookupsCycles(const TargetModel& target, std::int64_t indices, std::int64_t buckets,
                                 int wraps);

// A vertex of one worker that copies the `elements` elements of its next block.
std::uint64_t TakeBlockCycles(const TargetModel& target, DType type, std::int64_t elements);

// A vertex that looks up the indices of one of `blocks` blocks, of `indices` in all: as SliceCycles, with 12
// cycles to find the first and 3 to take an entry apart. The worker with the most of them counts: four
// standard deviations and one above the mean.
std::uint64_t LookUpBlockCycles(const TargetModel& target, DType type, std::int64_t indices,
                                std::int64_t blocks, std::int64_t elements);

// A vertex that combines the updates of one of `blocks` blocks, of `updates` in all, with rows of `elements`
// elements of that block: as ScatterCycles, as a worker has rows of its own; 10 cycles find the first update
// of each worker, and 3 take an entry apart. The busiest is as above.
std::uint64_t AddToBlockCycles(const TargetModel& target, UpdateKind kind, DType type, std::int64_t updates,
                               std::int64_t blocks, std::int64_t elements);

// A vertex that picks `rows` rows from the results of shares: 20 instructions find the share of an index.
std::uint64_t PickShareCycles(const TargetModel& target, DType type, std::int64_t rows, std::int64_t elements,
                              int wraps);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_INDEX_INDEX_COST_H_
