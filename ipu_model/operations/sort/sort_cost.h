// Tile cycles of sort and top_k: model estimates, counted from the instructions, as PopLibs publishes none.
#ifndef IPU_MODEL_OPERATIONS_SORT_SORT_COST_H_
#define IPU_MODEL_OPERATIONS_SORT_SORT_COST_H_

#include <cstddef>
#include <cstdint>

#include "core/target/target_model.h"

namespace ipu_model {

// Worker cycles of a comparison sort of n elements shared by the workers, then merged: n log2 n steps.
std::uint64_t SortCycles(const TargetModel& target, std::int64_t n, std::size_t operands);

// A vertex that keeps the lower or the upper half of two sorted chunks of n elements.
std::uint64_t MergeCycles(const TargetModel& target, std::int64_t n, std::size_t operands);

// A vertex that copies n elements of four bytes of each operand.
std::uint64_t StoreSortedCycles(const TargetModel& target, unsigned operands, std::int64_t n);

// A vertex that finds the k first of n elements in each row: one load, compare and branch for each element,
// and k log k steps for the heap.
std::uint64_t TopKCycles(const TargetModel& target, std::int64_t rows, std::int64_t n, std::int64_t k);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_SORT_SORT_COST_H_
