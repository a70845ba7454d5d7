#include "core/held_counter.h"

#include <algorithm>

#include "core/strided_set.h"
#include "kernels/host/integer_division.h"

namespace ipu_model {

using namespace internal;

HeldCounter::HeldCounter(const Mapping& mapping, const View& view) : mapping_(mapping), view_(view) {
  const Partition* partition = mapping.partition();
  StridedSet set;
  Aligned aligned;
  if (partition == nullptr || !Canonicalise(view, nullptr, &set)) return;
  Align(*partition, set, &aligned);
  aligned_ = true;
  first_dim_.assign(aligned.first_dim, aligned.first_dim + aligned.rank + 1);
  first_digit_.assign(aligned.first_digit, aligned.first_digit + aligned.rank + 1);
  coordinate_.assign(aligned.coordinate, aligned.coordinate + aligned.rank);
  for (int i = 0; i < aligned.first_digit[aligned.rank]; ++i) {
    const StridedSet::Dim& dim = set.dims[aligned.digits[i].source];
    dims_.push_back({dim.view_dim, aligned.digits[i].step, dim.reversed});
  }
  for (std::size_t k = 0; k < partition->shape.size(); ++k) {
    grains_.push_back(CeilDivide(partition->shape[k], partition->grain[k]));
  }
  row_major_tiles_ = true;
  std::int64_t stride = 1;
  for (std::size_t d = partition->parts.size(); d-- > 0;) {
    row_major_tiles_ = row_major_tiles_ && (partition->parts[d] == 1 || partition->tile_stride[d] == stride);
    stride *= partition->parts[d];
  }
}

std::int64_t HeldCounter::Distinct(const Box& region) const {
  std::int64_t n = 1;
  for (std::size_t d = 0; d < view_.shape.size(); ++d) {
    const std::int64_t extent = region.end[d] - region.begin[d];
    if (extent <= 0) return 0;
    if (view_.strides[d] != 0) n *= extent;
  }
  return n;
}

std::int64_t HeldCounter::BeginOf(std::size_t dim, std::int64_t part) const {
  const Partition& partition = *mapping_.partition();
  if (part == 0) return 0;
  if (part == partition.parts[dim]) return partition.shape[dim];
  return std::min(partition.shape[dim], part * grains_[dim] / partition.parts[dim] * partition.grain[dim]);
}

std::int64_t HeldCounter::HeldInPart(const std::int64_t* part, const Box& region) const {
  std::int64_t held = 1;
  for (std::size_t k = 0; k < coordinate_.size(); ++k) {
    const int first = first_digit_[k], n = first_digit_[k + 1] - first;
    std::int64_t base = coordinate_[k];
    Digit digits[kMaxRank];
    for (int i = 0; i < n; ++i) {
      const Dim& dim = dims_[static_cast<std::size_t>(first + i)];
      const auto d = static_cast<std::size_t>(dim.view_dim);
      base += (dim.reversed ? view_.shape[d] - region.end[d] : region.begin[d]) * dim.step;
      digits[i] = {region.end[d] - region.begin[d], dim.step, 0};
    }
    const auto within = [&](std::int64_t low, std::int64_t high) -> std::int64_t {
      if (n == 0) return low <= base && base < high ? 1 : 0;
      if (n == 1 && digits[0].step == 1) {
        return std::max<std::int64_t>(0, std::min(high, base + digits[0].extent) - std::max(low, base));
      }
      return CountWithin(digits, n, base, low, high);
    };
    if (first_dim_[k + 1] == first_dim_[k] + 1) {
      const auto dim = static_cast<std::size_t>(first_dim_[k]);
      held *= within(BeginOf(dim, part[dim]), BeginOf(dim, part[dim] + 1));
    } else {
      std::int64_t sum = 0;
      ForEachRunOfPart(*mapping_.partition(), first_dim_[k], first_dim_[k + 1], part,
                       [&](std::int64_t low, std::int64_t high) { sum += within(low, high); });
      held *= sum;
    }
    if (held == 0) return 0;
  }
  return held;
}

std::int64_t HeldCounter::Held(unsigned tile, const Box& region) const {
  const std::int64_t distinct = Distinct(region);
  if (distinct == 0) return 0;
  if (!aligned_) {
    // Held counts every repetition of a broadcast element.
    return mapping_.Held(tile, view_, region) / (region.num_elements() / distinct);
  }
  const Partition& partition = *mapping_.partition();
  if (tile >= partition.num_tiles) return 0;
  std::int64_t held = 0;
  if (!row_major_tiles_) {
    ForEachPartOn(partition, tile, [&](const std::int64_t* part) { held += HeldInPart(part, region); });
    return held;
  }
  const std::int64_t tiles = partition.num_tiles, parts = partition.num_parts();
  std::int64_t number = (static_cast<std::int64_t>(tile) + tiles - partition.first_tile % tiles) % tiles;
  std::int64_t part[kMaxRank];
  for (; number < parts; number += tiles) {
    std::int64_t rest = number;
    for (std::size_t d = partition.parts.size(); d-- > 0;) {
      if (partition.parts[d] == 1) {
        part[d] = 0;
        continue;
      }
      part[d] = rest % partition.parts[d];
      rest /= partition.parts[d];
    }
    held += HeldInPart(part, region);
  }
  return held;
}

}  // namespace ipu_model
