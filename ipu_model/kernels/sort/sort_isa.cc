// Inner loops of sorting: key encoding, radix passes, ranking of short arrays.
#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/sort/sort_loops.h"

namespace ipu_model {
namespace ISA_NAMESPACE {
namespace {

constexpr std::int64_t kRanked = 64;  // up to this length, comparing all pairs is faster than counting digits
constexpr std::int64_t kWideDigits = 12 << 10;  // from this length on, digits have 11 bits
constexpr std::int64_t kParallel = 48 << 10;
constexpr int kMaxWorkers = 16;

// S is the unsigned storage type of the element.
template <typename S, typename K>
bool EncodeAs(const KeyCode& code, const void* data, std::int64_t stride, std::int64_t n, K* keys) {
  const S* values = static_cast<const S*>(data);
  constexpr S kTop = static_cast<S>(S{1} << (8 * sizeof(S) - 1));
  const S flip = static_cast<S>(code.flip);
  if (!code.is_float) {
    const S sign = static_cast<S>(code.sign ^ code.flip);
    if (code.unused == 0) {
      for (std::int64_t i = 0; i < n; ++i) keys[i] = static_cast<S>(values[i * stride] ^ sign);
    } else {
      for (std::int64_t i = 0; i < n; ++i) keys[i] = static_cast<S>(values[i * stride] << code.unused ^ sign);
    }
    return false;
  }
  const S smallest = static_cast<S>(code.smallest), largest = static_cast<S>(code.largest);
  const S nan = static_cast<S>(code.nan);
  S changed = 0;
  const auto encode = [&](S v) {
    const S magnitude = static_cast<S>(v & static_cast<S>(~kTop));
    S x = magnitude < smallest ? S{0} : v;
    x = magnitude > largest ? nan : x;
    changed = static_cast<S>(changed | (x ^ v));
    // Flip all bits of negative values; set the top bit of the others, which puts them above.
    const S mask = (x & kTop) != 0 ? static_cast<S>(~S{0}) : kTop;
    return static_cast<S>(x ^ mask ^ flip);
  };
  if (stride == 1) {
    for (std::int64_t i = 0; i < n; ++i) keys[i] = encode(values[i]);
  } else {
    for (std::int64_t i = 0; i < n; ++i) keys[i] = encode(values[i * stride]);
  }
  return changed != 0;
}

template <typename S, typename K>
void DecodeAs(const KeyCode& code, const K* keys, std::int64_t n, void* data) {
  S* values = static_cast<S*>(data);
  constexpr S kTop = static_cast<S>(S{1} << (8 * sizeof(S) - 1));
  const S flip = static_cast<S>(code.flip), sign = static_cast<S>(code.sign ^ code.flip);
  if (!code.is_float) {
    for (std::int64_t i = 0; i < n; ++i) values[i] = static_cast<S>(static_cast<S>(keys[i]) ^ sign);
    return;
  }
  for (std::int64_t i = 0; i < n; ++i) {
    const S x = static_cast<S>(static_cast<S>(keys[i]) ^ flip);
    values[i] = static_cast<S>(x ^ ((x & kTop) != 0 ? kTop : static_cast<S>(~S{0})));
  }
}

template <typename K>
bool EncodeAny(const KeyCode& code, const void* data, std::int64_t stride, std::int64_t n, K* keys) {
  switch (code.bytes) {
    case 1:
      return EncodeAs<std::uint8_t>(code, data, stride, n, keys);
    case 2:
      return EncodeAs<std::uint16_t>(code, data, stride, n, keys);
    case 4:
      return EncodeAs<std::uint32_t>(code, data, stride, n, keys);
    default:
      break;
  }
  if constexpr (sizeof(K) == 8) return EncodeAs<std::uint64_t>(code, data, stride, n, keys);
  return false;
}

template <typename K>
void DecodeAny(const KeyCode& code, const K* keys, std::int64_t n, void* data) {
  switch (code.bytes) {
    case 1:
      return DecodeAs<std::uint8_t>(code, keys, n, data);
    case 2:
      return DecodeAs<std::uint16_t>(code, keys, n, data);
    case 4:
      return DecodeAs<std::uint32_t>(code, keys, n, data);
    default:
      break;
  }
  if constexpr (sizeof(K) == 8) DecodeAs<std::uint64_t>(code, keys, n, data);
}

// The position of an element is the number of elements before it: n * n comparisons, all in vectors. The bits
// from `low` on fit into 32 bits.
template <typename R>
void RankSort(const R* from, R* to, std::int64_t n, int low) {
  alignas(64) std::uint32_t keys[kRanked];
  const std::int64_t padded = (n + 15) & ~std::int64_t{15};
  for (std::int64_t i = 0; i < n; ++i) keys[i] = static_cast<std::uint32_t>(from[i] >> low);
  for (std::int64_t i = n; i < padded; ++i) keys[i] = ~0u;  // padding sorts after every element
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint32_t key = keys[i], position = static_cast<std::uint32_t>(i);
    std::uint32_t rank = 0;
    for (std::uint32_t j = 0; j < static_cast<std::uint32_t>(padded); ++j) {
      rank += keys[j] < key || (keys[j] == key && j < position) ? 1u : 0u;
    }
    to[rank] = from[i];
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
    if (count[(from[0] >> shift) & (kBuckets - 1)] == n) continue;  // all elements have the same digit
    std::uint32_t sum = 0;
    for (std::size_t b = 0; b < kBuckets; ++b) sum += std::exchange(count[b], sum);
    for (std::int64_t i = 0; i < n; ++i) to[count[(from[i] >> shift) & (kBuckets - 1)]++] = from[i];
    std::swap(from, to);
  }
  return from;
}

// Every worker counts and moves one block. The offsets are prefix sums in the order of the blocks, so the
// sort is stable.
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

template <typename K>
K Largest(const K* keys, std::int64_t n) {
  K largest = 0;
  for (std::int64_t i = 0; i < n; ++i) largest = keys[i] > largest ? keys[i] : largest;
  return largest;
}

template <typename R>
R* Sort(ThreadPool* pool, R* records, R* buffer, std::int64_t n, int low, int high) {
  if (n <= kRanked && high - low <= 32) {
    RankSort(records, buffer, n, low);
    return buffer;
  }
  if (pool != nullptr && pool->size() > 1 && n >= kParallel) {
    return SortParallel(*pool, records, buffer, n, low, high);
  }
  return n >= kWideDigits && high - low > 16 ? SortDigits<R, 11>(records, buffer, n, low, high)
                                             : SortDigits<R, 8>(records, buffer, n, low, high);
}

}  // namespace

bool EncodeKeys(const KeyCode& code, const void* data, std::int64_t stride, std::int64_t n,
                std::uint32_t* keys) {
  return EncodeAny(code, data, stride, n, keys);
}
bool EncodeKeys(const KeyCode& code, const void* data, std::int64_t stride, std::int64_t n,
                std::uint64_t* keys) {
  return EncodeAny(code, data, stride, n, keys);
}
void DecodeKeys(const KeyCode& code, const std::uint32_t* keys, std::int64_t n, void* data) {
  DecodeAny(code, keys, n, data);
}
void DecodeKeys(const KeyCode& code, const std::uint64_t* keys, std::int64_t n, void* data) {
  DecodeAny(code, keys, n, data);
}
std::uint32_t LargestKey(const std::uint32_t* keys, std::int64_t n) { return Largest(keys, n); }
std::uint64_t LargestKey(const std::uint64_t* keys, std::int64_t n) { return Largest(keys, n); }
std::uint32_t* RadixSort(ThreadPool* pool, std::uint32_t* records, std::uint32_t* buffer, std::int64_t n,
                         int low, int high) {
  return Sort(pool, records, buffer, n, low, high);
}
std::uint64_t* RadixSort(ThreadPool* pool, std::uint64_t* records, std::uint64_t* buffer, std::int64_t n,
                         int low, int high) {
  return Sort(pool, records, buffer, n, low, high);
}

}  // namespace ISA_NAMESPACE
}  // namespace ipu_model
