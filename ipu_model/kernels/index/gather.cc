// Gather, with fast paths for single elements and contiguous rows.
#include "kernels/index/gather.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "kernels/copy/strided_copy.h"
#include "kernels/host/isa.h"
#include "kernels/index/gather_inner.h"
#include "kernels/index/gather_words.h"

namespace ipu_model {
namespace {

constexpr std::int64_t kBlockRows = 1024;
// Shorter segments of elements cost less as a list of offsets.
constexpr std::int64_t kLeastSegment = 8;
// Below this many bytes, one thread is faster.
constexpr std::int64_t kParallelBytes = 64 << 10;

struct Bytes16 {
  std::uint64_t low, high;
};

// Picks elements in one pass, so that the processor can overlap many lookups.
template <typename T, typename I>
void PickElements(const WindowRows::Elements& elements, std::int64_t begin, std::int64_t end,
                  const T* operand, T* out) {
  const auto run = [&](WindowRows::Elements fixed) {
    fixed.ForEach<I, true>(begin, end, [&](std::int64_t row, std::int64_t from) {
      out[row * fixed.windows_step] = operand[from];
    });
  };
  WindowRows::Elements fixed = elements;
  if (fixed.index_stride == 1 && fixed.windows_step == 1 && fixed.operand_stride == 1) {
    // Constants, so that the compiler can use them.
    fixed.index_stride = fixed.windows_step = fixed.operand_stride = 1;
    run(fixed);
  } else {
    run(fixed);
  }
}

// Whether PickWords supports the rows, for elements of up to 8 bytes.
bool AreWords(const WindowRows::Elements& elements, WordPicks* picks) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  if (elements.index_stride != 1 || elements.windows_step != 1) return false;
  if (std::max({elements.wrap, elements.limit, std::abs(elements.operand_stride)}) > kMost ||
      elements.limit * std::abs(elements.operand_stride) > kMost)
    return false;
  *picks = {static_cast<const std::int32_t*>(elements.index), static_cast<std::int32_t>(elements.wrap),
            static_cast<std::int32_t>(elements.limit), static_cast<std::int32_t>(elements.operand_stride),
            elements.type == DType::kU32};
  return true;
}

// Indices of other types, as those that PickWords takes: in its range, and dense.
template <typename T, typename I>
void PickConverted(const WindowRows::Elements& elements, WordPicks picks, std::int64_t begin,
                   std::int64_t end, const T* operand, T* out) {
  std::int32_t index[kBlockRows];
  picks.index = index;
  const I* from = static_cast<const I*>(elements.index);
  const std::int64_t limit = elements.limit, wrap = elements.wrap;
  for (std::int64_t r = begin; r < end; r += kBlockRows) {
    const std::int64_t n = std::min(kBlockRows, end - r);
    for (std::int64_t i = 0; i < n; ++i) {
      const auto v = static_cast<std::int64_t>(from[r + i]);
      index[i] = static_cast<std::int32_t>(std::clamp<std::int64_t>(v < 0 ? v + wrap : v, 0, limit));
    }
    JAX_IPU_FOR_ISA(PickWords)(picks, n, sizeof(T), operand + elements.base, out + r);
  }
}

template <typename T>
void PickSegment(const WindowRows::Elements& elements, std::int64_t begin, std::int64_t end, const T* operand,
                 T* out) {
  WordPicks picks;
  if (sizeof(T) <= 8 && AreWords(elements, &picks)) {
    if (elements.type != DType::kS32 && elements.type != DType::kU32) {
      return WindowRows::Elements::WithIndex(elements.type, [&](auto zero) {
        PickConverted<T, decltype(zero)>(elements, picks, begin, end, operand, out);
      });
    }
    picks.index += begin;
    return JAX_IPU_FOR_ISA(PickWords)(picks, end - begin, sizeof(T), operand + elements.base, out + begin);
  }
  WindowRows::Elements::WithIndex(
      elements.type, [&](auto zero) { PickElements<T, decltype(zero)>(elements, begin, end, operand, out); });
}

template <typename T>
void GatherElements(const WindowRows& rows, std::int64_t begin, std::int64_t end, const T* operand, T* out) {
  WindowRows::Elements elements;
  if (rows.AreElements(&elements)) return PickSegment(elements, begin, end, operand, out);
  const bool have_places = sizeof(T) <= 8 && rows.HavePlaces();
  std::int64_t from[kBlockRows], to[kBlockRows];
  std::int32_t place[kBlockRows];
  for (std::int64_t r = begin; r < end;) {
    std::int64_t offset = 0, n = rows.ElementSegment(r, end, &elements, &offset);
    if (n >= kLeastSegment) {
      PickSegment(elements, 0, n, operand, out + offset);
      r += n;
      continue;
    }
    n = std::min(kBlockRows, end - r);
    if (have_places) {
      n = rows.Places(r, n, place, &offset);
      const WordPicks picks{place, 0, std::numeric_limits<std::int32_t>::max(), 1};
      JAX_IPU_FOR_ISA(PickWords)(picks, n, sizeof(T), operand, out + offset);
      r += n;
      continue;
    }
    rows.Offsets(r, n, true, from, to);
    for (std::int64_t i = 0; i < n; ++i) out[to[i]] = operand[from[i]];
    r += n;
  }
}

void GatherWindows(const WindowRows& rows, const WindowRows::Loop& loop, std::int64_t begin, std::int64_t end,
                   ThreadPool* pool, std::size_t size, const char* operand, char* out) {
  std::int64_t from[kBlockRows], to[kBlockRows];
  const std::int64_t bytes = static_cast<std::int64_t>(size);
  const bool contiguous = loop.contiguous();
  const std::size_t row_bytes = static_cast<std::size_t>(loop.elements) * size;
  // Prefetch distance in rows: rows of a large table are cache misses.
  constexpr std::int64_t kAhead = 8;
  for (std::int64_t r = begin; r < end; r += kBlockRows) {
    const std::int64_t n = std::min(kBlockRows, end - r);
    rows.Offsets(r, n, true, from, to);
    if (contiguous) {
      for (std::int64_t i = 0; i < n; ++i) {
        if (i + kAhead < n) __builtin_prefetch(operand + from[i + kAhead] * bytes);
        std::memcpy(out + to[i] * bytes, operand + from[i] * bytes, row_bytes);
      }
    } else {
      for (std::int64_t i = 0; i < n; ++i) {
        CopyStrided(pool, loop.rank, loop.shape, operand + from[i] * bytes, loop.operand, out + to[i] * bytes,
                    loop.windows, size);
      }
    }
  }
}

void GatherClipped(const IndexedWindow& window, const WindowRows& rows, const HostTensor& operand,
                   const HostTensor& out) {
  const std::size_t size = SizeOf(operand.type);
  const std::int64_t bytes = static_cast<std::int64_t>(size);
  std::int64_t begin[kMaxRank], window_begin[kMaxRank], extent[kMaxRank], strides[kMaxRank], to;
  for (std::int64_t r = 0; r < rows.num_rows(); ++r) {
    if (!rows.Clip(r, true, begin, window_begin, extent, &to)) continue;
    std::int64_t from = 0;
    for (int d = 0; d < window.operand_rank; ++d) {
      strides[d] = window.window_dim[d] < 0 ? 1 : out.strides[window.window_dim[d]];
      from += begin[d] * operand.strides[d];
      to += window.window_dim[d] < 0 ? 0 : window_begin[d] * strides[d];
    }
    CopyStrided(nullptr, window.operand_rank, extent, operand.as<char>() + from * bytes, operand.strides,
                out.as<char>() + to * bytes, strides, size);
  }
}

}  // namespace

void Gather(HostContext& context, const IndexedWindow& window, const WindowPlacement& placement,
            const HostTensor& operand, const HostTensor& indices, const HostTensor& out) {
  const std::int64_t elements = out.num_elements();
  if (elements == 0) return;
  const WindowRows rows(window, placement, operand, indices, out);
  if (placement.clipped) return GatherClipped(window, rows, operand, out);
  const std::size_t size = SizeOf(operand.type);
  const WindowRows::Loop loop = rows.WindowLoop();
  if (GatherInner(context, rows, loop, operand, out)) return;
  const auto run = [&](std::int64_t begin, std::int64_t end, ThreadPool* pool) {
    if (loop.elements > 1) {
      return GatherWindows(rows, loop, begin, end, pool, size, operand.as<char>(), out.as<char>());
    }
    switch (size) {
      case 1:
        return GatherElements(rows, begin, end, operand.as<std::uint8_t>(), out.as<std::uint8_t>());
      case 2:
        return GatherElements(rows, begin, end, operand.as<std::uint16_t>(), out.as<std::uint16_t>());
      case 4:
        return GatherElements(rows, begin, end, operand.as<std::uint32_t>(), out.as<std::uint32_t>());
      case 8:
        return GatherElements(rows, begin, end, operand.as<std::uint64_t>(), out.as<std::uint64_t>());
      default:
        return GatherElements(rows, begin, end, operand.as<Bytes16>(), out.as<Bytes16>());
    }
  };
  if (elements * static_cast<std::int64_t>(size) < kParallelBytes) {
    run(0, rows.num_rows(), nullptr);
  } else if (rows.num_rows() < 4 * context.pool.size()) {
    run(0, rows.num_rows(), &context.pool);  // few large windows: the threads share each of them
  } else {
    ParallelFor(context.pool, rows.num_rows(), 16,
                [&](std::int64_t begin, std::int64_t end) { run(begin, end, nullptr); });
  }
}

}  // namespace ipu_model
