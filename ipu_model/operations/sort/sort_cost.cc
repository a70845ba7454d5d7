#include "operations/sort/sort_cost.h"

namespace ipu_model {

std::uint64_t SortCycles(const TargetModel& target, std::int64_t n, std::size_t operands) {
  std::int64_t levels = 1;
  while ((std::int64_t{1} << levels) < n) ++levels;
  const std::int64_t step = 8 + 3 * static_cast<std::int64_t>(operands);
  return static_cast<std::uint64_t>(n * levels * step) + target.supervisor_overhead;
}

std::uint64_t MergeCycles(const TargetModel& target, std::int64_t n, std::size_t operands) {
  const std::int64_t step = 8 + 3 * static_cast<std::int64_t>(operands);
  return static_cast<std::uint64_t>(n * step) + target.supervisor_overhead;
}

std::uint64_t StoreSortedCycles(const TargetModel& target, unsigned operands, std::int64_t n) {
  return std::uint64_t{operands} *
         (target.local_copy_call_cycles + static_cast<std::uint64_t>(n) * 4 / target.memcpy_bytes_per_cycle);
}

std::uint64_t TopKCycles(const TargetModel& target, std::int64_t rows, std::int64_t n, std::int64_t k) {
  std::int64_t levels = 1;
  while ((std::int64_t{1} << levels) < k) ++levels;
  return static_cast<std::uint64_t>(rows * (3 * n + 20 * k * levels)) + target.supervisor_overhead;
}

}  // namespace ipu_model
