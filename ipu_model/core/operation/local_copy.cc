#include "core/operation/local_copy.h"

#include <algorithm>
#include <tuple>

#include "kernels/host/integer_division.h"

namespace ipu_model {

std::uint64_t LocalCopyCycles(const TargetModel& target, std::int64_t size, const LocalCopy& copy) {
  if (copy.elements == 0) return 0;
  // The workers share the rows. Each takes the 15 cycles that a row of PopLibs' two-dimensional vertices does
  // (lib/popops/popopsCycleEstimators.cpp, ScaledArithmetic2DCycleEstimate).
  constexpr std::int64_t kRowCycles = 15;
  const std::int64_t row = CeilDivide(copy.elements, copy.rows);
  const std::int64_t in_rows =
      copy.rows * (kRowCycles + CeilDivide(row * size, std::int64_t{target.memcpy_bytes_per_cycle}));
  // PopLibs' planner takes 5/4 cycles for each element that is moved on its own (lib/poplin/ConvModel.cpp,
  // addTransformCycleEstimate).
  const std::int64_t reorder = CeilDivide(copy.elements * std::max<std::int64_t>(1, size / 4) * 5, 4);
  return static_cast<std::uint64_t>(std::min(in_rows, reorder));
}

TileOrder::TileOrder(const Mapping& mapping, std::int64_t num_elements) {
  mapping.ForEachInterval(0, num_elements, [&](std::int64_t begin, std::int64_t end, unsigned tile) {
    rows_.push_back({tile, begin, end, 0});
  });
  std::stable_sort(rows_.begin(), rows_.end(), [](const Row& a, const Row& b) { return a.tile < b.tile; });
  for (std::size_t r = 1; r < rows_.size(); ++r) {
    const Row& before = rows_[r - 1];
    if (before.tile == rows_[r].tile) rows_[r].place = before.place + before.end - before.begin;
  }
}

std::size_t TileOrder::First(unsigned tile, std::int64_t begin) const {
  const auto row = std::lower_bound(
      rows_.begin(), rows_.end(), std::make_tuple(tile, begin),
      [](const Row& r, const auto& key) { return std::make_tuple(r.tile, r.end - 1) < key; });
  return static_cast<std::size_t>(row - rows_.begin());
}

}  // namespace ipu_model
