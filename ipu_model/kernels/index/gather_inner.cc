#include "kernels/index/gather_inner.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "kernels/host/isa.h"
#include "kernels/index/pick_rows.h"

namespace ipu_model {
namespace {

// Below this many bytes, one thread is faster.
constexpr std::int64_t kParallelBytes = 64 << 10;
// Indices of one piece of work: a longer row is more than one.
constexpr std::int64_t kRowIndices = 4096;
// Larger blocks are faster window by window.
constexpr std::int64_t kMostBlockBytes = 256;

// The dimensions of the windows that are outside of the index.
struct OuterLoop {
  int rank = 0;
  std::int64_t shape[kMaxRank], operand[kMaxRank], out[kMaxRank], count = 1;

  // Calls f(rows, operand offset, out offset) for segments along the last dimension in [begin, end).
  template <typename F>
  void ForEachSegment(std::int64_t begin, std::int64_t end, F&& f) const {
    for (std::int64_t at = begin; at < end;) {
      std::int64_t from = 0, to = 0, left = 0;
      for (std::int64_t d = rank - 1, rest = at; d >= 0; --d) {
        const std::int64_t position = rest % shape[d];
        rest /= shape[d];
        from += position * operand[d];
        to += position * out[d];
        if (d == rank - 1) left = shape[d] - position;
      }
      const std::int64_t n = std::min(left, end - at);
      f(n, from, to);
      at += n;
    }
  }
};

template <typename I>
void FillPlaces(const WindowRows::Elements& elements, std::int64_t n, std::int32_t* places) {
  elements.ForEach<I, true>(0, n, [&](std::int64_t row, std::int64_t from) {
    places[row] = static_cast<std::int32_t>(from - elements.base);
  });
}

// Copies blocks of `bytes`; steps and places are in elements of `size` bytes.
template <std::int64_t kBytes>
void CopyBlocks(const RowPicks& picks, std::int64_t block_step, std::int64_t size, std::int64_t bytes,
                const char* from, char* out) {
  for (std::int64_t r = 0; r < picks.rows; ++r) {
    for (std::int64_t i = 0; i < picks.n; ++i) {
      std::memcpy(out + (r * picks.out_step + i * block_step) * size,
                  from + (r * picks.from_step + picks.places[i]) * size,
                  static_cast<std::size_t>(kBytes > 0 ? kBytes : bytes));
    }
  }
}
decltype(&CopyBlocks<0>) ChooseCopy(std::int64_t bytes) {
  switch (bytes) {
    case 4:
      return CopyBlocks<4>;
    case 8:
      return CopyBlocks<8>;
    case 16:
      return CopyBlocks<16>;
    case 32:
      return CopyBlocks<32>;
    case 64:
      return CopyBlocks<64>;
    default:
      return CopyBlocks<0>;
  }
}

}  // namespace

bool GatherInner(HostContext& context, const WindowRows& rows, const WindowRows::Loop& loop,
                 const HostTensor& operand, const HostTensor& out) {
  const auto size = static_cast<std::int64_t>(SizeOf(operand.type));
  const std::int64_t n = rows.num_rows();
  WindowRows::Elements elements;
  if (loop.rank == 0 || n < 2 || !rows.AreIndexed(&elements)) return false;
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  const std::int64_t stride = std::abs(elements.operand_stride);
  if (elements.limit > kMost || stride > kMost || elements.limit * stride > kMost) return false;

  // A last dimension that is contiguous is a block, the others are outer ones.
  std::int64_t block = 1;
  OuterLoop outer;
  outer.rank = loop.rank;
  if (loop.operand[loop.rank - 1] == 1 && loop.windows[loop.rank - 1] == 1) {
    block = loop.shape[--outer.rank];
    if (outer.rank == 0 || block * size > kMostBlockBytes) return false;
  } else if (elements.windows_step != 1) {
    return false;
  }
  for (int d = 0; d < outer.rank; ++d) {
    if (std::abs(loop.operand[d]) < stride || std::abs(loop.windows[d]) < std::abs(elements.windows_step)) {
      return false;
    }
    outer.shape[d] = loop.shape[d];
    outer.operand[d] = loop.operand[d];
    outer.out[d] = loop.windows[d];
    outer.count *= loop.shape[d];
  }

  const Scratch::Mark mark = context.scratch.Save();
  auto* const places = context.scratch.Allocate<std::int32_t>(static_cast<std::size_t>(n));
  WindowRows::Elements::WithIndex(elements.type,
                                  [&](auto zero) { FillPlaces<decltype(zero)>(elements, n, places); });
  const auto [least, largest] = std::minmax_element(places, places + n);
  const auto pick = JAX_IPU_FOR_ISA(PickRows);
  const auto copy = ChooseCopy(block * size);
  const std::int64_t pieces = (n + kRowIndices - 1) / kRowIndices;
  const auto run = [&, least = *least, largest = *largest](std::int64_t begin, std::int64_t end) {
    const std::int64_t step = pieces == 1 ? end - begin : 1;
    for (std::int64_t at = begin; at < end; at += step) {
      const std::int64_t first = at % pieces * kRowIndices, row = at / pieces;
      outer.ForEachSegment(row, row + step, [&](std::int64_t count, std::int64_t from, std::int64_t to) {
        const RowPicks picks{places + first,
                             std::min(n - first, kRowIndices),
                             least,
                             largest,
                             count,
                             outer.operand[outer.rank - 1],
                             outer.out[outer.rank - 1]};
        const char* const source = operand.as<char>() + (elements.base + from) * size;
        char* const result = out.as<char>() + (to + first * elements.windows_step) * size;
        if (block == 1) {
          pick(picks, static_cast<std::size_t>(size), source, result);
        } else {
          copy(picks, elements.windows_step, size, block * size, source, result);
        }
      });
    }
  };
  if (outer.count * n * block * size < kParallelBytes) {
    run(0, outer.count * pieces);
  } else {
    ParallelFor(context.pool, outer.count * pieces, 1, run);
  }
  context.scratch.Rewind(mark);
  return true;
}

}  // namespace ipu_model
