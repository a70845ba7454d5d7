#include "kernels/index/ranged_windows.h"

#include <algorithm>

namespace ipu_model {
namespace {

constexpr std::int64_t kBlockRows = 512;

}  // namespace

OffsetRange OffsetRange::Of(const HostTensor& tensor) {
  OffsetRange range;
  for (int d = 0; d < tensor.rank; ++d) {
    const std::int64_t reach = (tensor.shape[d] - 1) * tensor.strides[d];
    (reach > 0 ? range.high : range.low) += reach;
  }
  return range;
}

RangedWindows::RangedWindows(HostContext& context, const WindowRows& rows, std::int64_t begin,
                             std::int64_t end, const OffsetRange& operand, const OffsetRange& updates)
    : low_to_(operand.low), low_from_(updates.low) {
  // Each thread has one chunk of consecutive rows in all three passes.
  const std::int64_t chunks = context.pool.size(), n = end - begin;
  const std::int64_t most_ranges = chunks * kPiecesPerWorker;
  auto* const places = context.scratch.Allocate<Place>(static_cast<std::size_t>(n));
  ordered_ = context.scratch.Allocate<Place>(static_cast<std::size_t>(n));
  auto* const next = context.scratch.Allocate<std::int64_t>(static_cast<std::size_t>(chunks * most_ranges));
  auto* const least = context.scratch.Allocate<std::uint32_t>(static_cast<std::size_t>(2 * chunks));
  std::uint32_t* const most = least + chunks;
  starts_ = context.scratch.Allocate<std::int64_t>(static_cast<std::size_t>(most_ranges + 1));
  const auto for_each_chunk = [&](auto&& f) {
    ParallelFor(
        context.pool, chunks, 1,
        [&](std::int64_t first, std::int64_t last) {
          for (std::int64_t c = first; c < last; ++c) f(c, n * c / chunks, n * (c + 1) / chunks);
        },
        1);
  };

  for_each_chunk([&](std::int64_t c, std::int64_t first, std::int64_t last) {
    std::int64_t to[kBlockRows], from[kBlockRows];
    std::uint32_t low = kOutside, high = 0;
    for (std::int64_t i = first; i < last; i += kBlockRows) {
      const std::int64_t count = std::min(kBlockRows, last - i);
      rows.Offsets(begin + i, count, false, to, from);
      for (std::int64_t k = 0; k < count; ++k) {
        const bool inside = to[k] != WindowRows::kSkip;
        const auto offset = inside ? static_cast<std::uint32_t>(to[k] - low_to_) : kOutside;
        places[i + k] = {offset, static_cast<std::uint32_t>(from[k] - low_from_)};
        low = std::min(low, offset);
        high = std::max(high, inside ? offset : 0);
      }
    }
    least[c] = low;
    most[c] = high;
  });
  const std::uint32_t low = *std::min_element(least, least + chunks);
  const std::uint32_t high = *std::max_element(most, most + chunks);
  if (low == kOutside) return;
  int shift = 0;
  while (static_cast<std::int64_t>((high - low) >> shift) >= most_ranges) ++shift;
  num_ranges_ = static_cast<int>((high - low) >> shift) + 1;

  for_each_chunk([&](std::int64_t c, std::int64_t first, std::int64_t last) {
    std::int64_t* const counts = next + c * num_ranges_;
    std::fill_n(counts, num_ranges_, 0);
    for (std::int64_t i = first; i < last; ++i) {
      if (places[i].to != kOutside) ++counts[(places[i].to - low) >> shift];
    }
  });
  std::int64_t sum = 0;
  for (int r = 0; r < num_ranges_; ++r) {
    starts_[r] = sum;
    for (std::int64_t c = 0; c < chunks; ++c) {
      const std::int64_t count = next[c * num_ranges_ + r];
      next[c * num_ranges_ + r] = sum;
      sum += count;
    }
  }
  starts_[num_ranges_] = sum;
  for_each_chunk([&](std::int64_t c, std::int64_t first, std::int64_t last) {
    std::int64_t* const at = next + c * num_ranges_;
    for (std::int64_t i = first; i < last; ++i) {
      if (places[i].to != kOutside) ordered_[at[(places[i].to - low) >> shift]++] = places[i];
    }
  });
}

}  // namespace ipu_model
