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

std::int64_t HeldCounter::HeldInGroup(std::size_t k, const std::int64_t* part, const Box& region) const {
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
    return within(BeginOf(dim, part[dim]), BeginOf(dim, part[dim] + 1));
  }
  std::int64_t sum = 0;
  ForEachRunOfPart(*mapping_.partition(), first_dim_[k], first_dim_[k + 1], part,
                   [&](std::int64_t low, std::int64_t high) { sum += within(low, high); });
  return sum;
}

std::int64_t HeldCounter::HeldInPart(const std::int64_t* part, const Box& region) const {
  std::int64_t held = 1;
  for (std::size_t k = 0; k < coordinate_.size() && held > 0; ++k) held *= HeldInGroup(k, part, region);
  return held;
}

void HeldCounter::Holders(const Box& region, std::vector<std::pair<unsigned, std::int64_t>>* out) {
  if (Distinct(region) == 0) return;
  if (!aligned_) {
    StridedSet set;
    Canonicalise(view_, &region, &set);
    Digit digits[kMaxRank];
    for (int d = 0; d < set.rank; ++d) digits[d] = {set.dims[d].extent, set.dims[d].stride, d};
    mapping_.ForEachRun(set.base, set.base + set.Span() + 1,
                        [&](std::int64_t begin, std::int64_t end, unsigned tile) {
                          const std::int64_t held = CountWithin(digits, set.rank, set.base, begin, end);
                          if (held > 0) out->emplace_back(tile, held);
                        });
    return;
  }
  const Partition& partition = *mapping_.partition();
  const std::size_t groups = coordinate_.size();
  // The parts of each group that hold something: group k's are held_[first[k]] to held_[first[k + 1]].
  std::size_t first[kMaxRank + 1] = {}, product = 1;
  held_.clear();
  for (std::size_t k = 0; k < groups; ++k) {
    const int first_dim = first_dim_[k], last_dim = first_dim_[k + 1],
              digits = first_digit_[k + 1] - first_digit_[k];
    std::int64_t low = coordinate_[k], span = 0, inner = 1, step = 1;
    for (int i = first_digit_[k]; i < first_digit_[k + 1]; ++i) {
      const Dim& dim = dims_[static_cast<std::size_t>(i)];
      const auto d = static_cast<std::size_t>(dim.view_dim);
      low += (dim.reversed ? view_.shape[d] - region.end[d] : region.begin[d]) * dim.step;
      span += (region.end[d] - region.begin[d] - 1) * dim.step;
      step = dim.step;
    }
    for (int d = first_dim + 1; d < last_dim; ++d) inner *= partition.shape[d];
    std::int64_t part[kMaxRank] = {};
    part[first_dim] = partition.PartOf(first_dim, low / inner);
    const std::int64_t end = partition.PartOf(first_dim, (low + span) / inner) + 1;
    if (last_dim == first_dim + 1 && digits < 2 && step == 1) {
      // The elements are a range of the dimension.
      const auto dim = static_cast<std::size_t>(first_dim);
      std::int64_t begin = low;
      for (std::int64_t p = part[first_dim]; p < end; ++p) {
        const std::int64_t next = std::min(BeginOf(dim, p + 1), low + span + 1);
        if (next > begin) held_.push_back({p * partition.tile_stride[dim], next - begin});
        begin = std::max(begin, next);
      }
    } else {
      for (int d = last_dim; d >= first_dim;) {
        const std::int64_t elements = HeldInGroup(k, part, region);
        if (elements > 0) {
          std::int64_t tiles = 0;
          for (int i = first_dim; i < last_dim; ++i) tiles += part[i] * partition.tile_stride[i];
          held_.push_back({tiles, elements});
        }
        for (d = last_dim - 1; d >= first_dim; --d) {
          if (++part[d] < (d == first_dim ? end : partition.parts[d])) break;
          part[d] = 0;
        }
      }
    }
    first[k + 1] = held_.size();
    product *= first[k + 1] - first[k];
  }
  out->reserve(out->size() + product);
  const std::int64_t num_tiles = partition.num_tiles;
  const auto multiply = [&](const auto& self, std::size_t k, std::int64_t tiles,
                            std::int64_t elements) -> void {
    if (k == groups) {
      out->emplace_back(static_cast<unsigned>(((tiles % num_tiles) + num_tiles) % num_tiles), elements);
      return;
    }
    for (std::size_t i = first[k]; i < first[k + 1]; ++i) {
      self(self, k + 1, tiles + held_[i].tiles, elements * held_[i].elements);
    }
  };
  multiply(multiply, 0, partition.first_tile, 1);
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
