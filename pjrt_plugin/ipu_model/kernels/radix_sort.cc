// Radix sort: 8-bit digits for short arrays, 11-bit digits (half the passes) where the counts stay in cache
// and are cheap beside the data.
#include "pjrt_plugin/ipu_model/kernels/radix_sort.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace ipu_model {
namespace {

constexpr std::int64_t kInsertion = 40;         // up to here counting costs more than moving
constexpr std::int64_t kWideDigits = 12 << 10;  // from here on 11-bit digits
constexpr std::int64_t kParallel = 48 << 10;
constexpr int kMaxWorkers = 16;

template <typename R>
void InsertionSort(R* records, std::int64_t n, int low) {
  for (std::int64_t i = 1; i < n; ++i) {
    const R record = records[i];
    std::int64_t j = i;
    for (; j > 0 && (records[j - 1] >> low) > (record >> low); --j) records[j] = records[j - 1];
    records[j] = record;
  }
}

template <typename R, int kBits>
R* SortDigits(R* from, R* to, std::int64_t n, int low, int high) {
  constexpr std::size_t kBuckets = std::size_t{1} << kBits;
  constexpr int kMaxDigits = (static_cast<int>(sizeof(R)) * 8 + kBits - 1) / kBits;
  std::uint32_t counts[kMaxDigits][kBuckets];
  const int digits = (high - low + kBits - 1) / kBits;
  std::memset(counts, 0, static_cast<std::size_t>(digits) * sizeof(counts[0]));
  for (std::int64_t i = 0; i < n; ++i) {
    for (int d = 0; d < digits; ++d) ++counts[d][(from[i] >> (low + d * kBits)) & (kBuckets - 1)];
  }
  for (int d = 0; d < digits; ++d) {
    const int shift = low + d * kBits;
    std::uint32_t* count = counts[d];
    if (count[(from[0] >> shift) & (kBuckets - 1)] == n) continue;  // all the same digit
    std::uint32_t sum = 0;
    for (std::size_t b = 0; b < kBuckets; ++b) sum += std::exchange(count[b], sum);
    for (std::int64_t i = 0; i < n; ++i) to[count[(from[i] >> shift) & (kBuckets - 1)]++] = from[i];
    std::swap(from, to);
  }
  return from;
}

// Every worker counts and moves one block; the counts are summed so that blocks keep their order.
template <typename R>
R* SortParallel(ThreadPool& pool, R* from, R* to, std::int64_t n, int low, int high) {
  constexpr int kBits = 11;
  constexpr std::size_t kBuckets = std::size_t{1} << kBits;
  const int workers = std::min(pool.size(), kMaxWorkers);
  static_assert(kMaxWorkers * kBuckets * sizeof(std::uint32_t) <= 128 << 10, "lives on the stack");
  std::uint32_t counts[kMaxWorkers][kBuckets];
  for (int shift = low; shift < high; shift += kBits) {
    auto count = [&](int w) {
      std::uint32_t* mine = counts[w];
      std::memset(mine, 0, sizeof(counts[0]));
      for (std::int64_t i = n * w / workers; i < n * (w + 1) / workers; ++i) {
        ++mine[(from[i] >> shift) & (kBuckets - 1)];
      }
    };
    pool.Run(workers, TaskRef(count));
    std::uint32_t sum = 0;
    bool single = false;
    for (std::size_t b = 0; b < kBuckets; ++b) {
      const std::uint32_t before = sum;
      for (int w = 0; w < workers; ++w) sum += std::exchange(counts[w][b], sum);
      single = single || sum - before == n;
    }
    if (single) continue;
    auto move = [&](int w) {
      std::uint32_t* mine = counts[w];
      for (std::int64_t i = n * w / workers; i < n * (w + 1) / workers; ++i) {
        to[mine[(from[i] >> shift) & (kBuckets - 1)]++] = from[i];
      }
    };
    pool.Run(workers, TaskRef(move));
    std::swap(from, to);
  }
  return from;
}

}  // namespace

template <typename R>
R* RadixSort(ThreadPool* pool, R* records, R* buffer, std::int64_t n, int low, int high) {
  if (n <= kInsertion) {
    InsertionSort(records, n, low);
    return records;
  }
  if (pool != nullptr && pool->size() > 1 && n >= kParallel) {
    return SortParallel(*pool, records, buffer, n, low, high);
  }
  return n >= kWideDigits && high - low > 16 ? SortDigits<R, 11>(records, buffer, n, low, high)
                                             : SortDigits<R, 8>(records, buffer, n, low, high);
}

template std::uint32_t* RadixSort(ThreadPool*, std::uint32_t*, std::uint32_t*, std::int64_t, int, int);
template std::uint64_t* RadixSort(ThreadPool*, std::uint64_t*, std::uint64_t*, std::int64_t, int, int);

}  // namespace ipu_model
