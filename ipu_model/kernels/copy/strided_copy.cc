#include "kernels/copy/strided_copy.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "kernels/copy/bound_copy.h"
#include "kernels/copy/line_copy.h"
#include "kernels/copy/transpose.h"
#include "kernels/host/isa.h"

namespace ipu_model {
namespace {

CopyLoop Normalise(int rank, const std::int64_t* shape, const std::int64_t* src, const std::int64_t* dst,
                   std::int64_t size) {
  CopyLoop loop;
  for (int d = 0; d < rank; ++d) {
    loop.total *= shape[d];
    if (shape[d] == 1) continue;
    loop.shape[loop.rank] = shape[d];
    loop.src[loop.rank] = src[d] * size;
    loop.dst[loop.rank++] = dst[d] * size;
  }
  // Stable insertion sort: the largest destination stride outermost; ties are decided by the source stride.
  for (int i = 1; i < loop.rank; ++i) {
    for (int j = i; j > 0; --j) {
      const std::int64_t a = std::abs(loop.dst[j - 1]), b = std::abs(loop.dst[j]);
      if (a > b || (a == b && std::abs(loop.src[j - 1]) >= std::abs(loop.src[j]))) break;
      std::swap(loop.shape[j], loop.shape[j - 1]);
      std::swap(loop.src[j], loop.src[j - 1]);
      std::swap(loop.dst[j], loop.dst[j - 1]);
    }
  }
  int last = 0;
  for (int d = 1; d < loop.rank; ++d) {
    if (loop.dst[last] == loop.dst[d] * loop.shape[d] && loop.src[last] == loop.src[d] * loop.shape[d]) {
      loop.shape[last] *= loop.shape[d];
      loop.src[last] = loop.src[d];
      loop.dst[last] = loop.dst[d];
    } else {
      ++last;
      loop.shape[last] = loop.shape[d];
      loop.src[last] = loop.src[d];
      loop.dst[last] = loop.dst[d];
    }
  }
  if (loop.rank > 0) loop.rank = last + 1;
  return loop;
}

struct Bytes16 {
  std::uint64_t low, high;
};

// Shorter lines take less time in a loop than in a call.
constexpr std::int64_t kShortLine = 16;
// Elements that are picked out of a line at a time.
constexpr std::int64_t kPicked = 1024;
// Segments of a plane that are copied one after the other, so that what they write stays in the cache.
constexpr std::int64_t kSegmentsAtOnce = 256;
// From this many segments on, a line is copied by itself.
constexpr std::int64_t kLongLine = 16;

// Copies lines of `kLength` elements that run backwards.
template <typename T, int kLength>
void CopyShortReversed(std::int64_t n, const char* src, std::int64_t src_stride, char* dst,
                       std::int64_t dst_stride) {
  for (std::int64_t i = 0; i < n; ++i) {
    const T* s = reinterpret_cast<const T*>(src + i * src_stride);
    T* d = reinterpret_cast<T*>(dst + i * dst_stride);
    for (int j = 0; j < kLength; ++j) d[j] = s[-j];
  }
}

template <typename T>
void CopyLine(std::int64_t n, const char* src, std::int64_t src_stride, char* dst, std::int64_t dst_stride) {
  constexpr std::int64_t kSize = sizeof(T);
  const T* s = reinterpret_cast<const T*>(src);
  T* d = reinterpret_cast<T*>(dst);
  const std::int64_t ss = src_stride / kSize, ds = dst_stride / kSize;
  if (ss == 0) {
    const T value = *s;
    if (ds == 1) {
      std::fill(d, d + n, value);
    } else {
      for (std::int64_t i = 0; i < n; ++i) d[i * ds] = value;
    }
  } else if (ss == -1 && ds == 1 && n >= kShortLine) {
    FindLineCopies(kSize).reversed(s, d, n);
  } else if (ds == 1) {
    for (std::int64_t i = 0; i < n; ++i) d[i] = s[i * ss];
  } else if (ss == 1 && ds > 0 && n >= kShortLine) {
    SpreadSegments(src, kSize, kSize, dst, dst_stride, n);
  } else {
    for (std::int64_t i = 0; i < n; ++i) d[i * ds] = s[i * ss];
  }
}

// Copies a plane whose source is contiguous along the outer dimension. Works in blocks that stay in cache on
// both sides, several at a time along the source's rows. Prefetches distant rows: hardware prefetchers miss
// this stride.
template <typename T>
void CopyPlane(std::int64_t rows, std::int64_t columns, const char* src, std::int64_t src_row,
               std::int64_t src_column, char* dst, std::int64_t dst_row, std::int64_t dst_column) {
  constexpr auto kSize = static_cast<std::int64_t>(sizeof(T));
  constexpr std::int64_t kBlock = std::max<std::int64_t>(kLineBytes / kSize, 8), kGroup = 4 * kBlock;
  constexpr std::int64_t kAhead = 2 * kBlock;
  const bool contiguous = src_row == kSize && dst_column == kSize;
  constexpr std::int64_t kMostWoven = LineCopies::kMostWoven;
  if (contiguous && columns <= kMostWoven && dst_row == columns * kSize)
    return FindLineCopies(kSize).woven(src, src_column / kSize, columns, dst, rows);
  if (contiguous && rows <= kMostWoven && src_column > 0) {
    const LineCopies copies = FindLineCopies(kSize);
    // Each piece of the source is read for every row while it is in the cache.
    for (std::int64_t c = 0; c < columns; c += kPicked) {
      for (std::int64_t r = 0; r < rows; ++r)
        copies.picked(src + r * kSize + c * src_column, src_column / kSize, dst + r * dst_row + c * kSize,
                      std::min(kPicked, columns - c));
    }
    return;
  }
  TransposeFunction transpose = nullptr;
  if constexpr (kSize <= 8) transpose = contiguous ? FindTransposeLines(sizeof(T)) : nullptr;
  const auto copy_block = [&](std::int64_t r, std::int64_t c) {
    const std::int64_t nr = std::min(kBlock, rows - r), nc = std::min(kBlock, columns - c);
    const char* from = src + r * src_row + c * src_column;
    char* to = dst + r * dst_row + c * dst_column;
    if (transpose != nullptr && nr == kBlock && nc == kBlock) {
      return transpose(reinterpret_cast<const unsigned char*>(from), src_column,
                       reinterpret_cast<unsigned char*>(to), dst_row);
    }
    if constexpr (kSize <= 8) {
      constexpr std::int64_t kSquare = kTransposeSide<T>;
      if (contiguous && nr >= kSquare && nc >= kSquare) {
        // The last squares overlap those before them.
        for (std::int64_t i = 0; i < nr; i += kSquare) {
          const std::int64_t row = std::min(i, nr - kSquare);
          for (std::int64_t j = 0; j < nc; j += kSquare) {
            const std::int64_t column = std::min(j, nc - kSquare);
            TransposeSquare<T>(
                reinterpret_cast<const unsigned char*>(from) + row * kSize + column * src_column, src_column,
                reinterpret_cast<unsigned char*>(to) + row * dst_row + column * kSize, dst_row);
          }
        }
        return;
      }
    }
    for (std::int64_t i = 0; i < nr; ++i) {
      CopyLine<T>(nc, from + i * src_row, src_column, to + i * dst_row, dst_column);
    }
  };
  for (std::int64_t first = 0; first < rows; first += kGroup) {
    const std::int64_t end = std::min(first + kGroup, rows);
    for (std::int64_t c = 0; c < columns; c += kBlock) {
      for (std::int64_t k = c + kAhead; contiguous && k < std::min(c + kAhead + kBlock, columns); ++k) {
        for (std::int64_t r = first; r < end; r += kBlock)
          __builtin_prefetch(src + r * kSize + k * src_column, 0, 2);
      }
      for (std::int64_t r = first; r < end; r += kBlock) copy_block(r, c);
    }
  }
}

template <typename T>
void CopyDims(const CopyLoop& loop, int dim, const char* src, char* dst) {
  const int left = loop.rank - dim;
  if (left == 0) {
    *reinterpret_cast<T*>(dst) = *reinterpret_cast<const T*>(src);
    return;
  }
  constexpr std::int64_t kSize = sizeof(T);
  if (left == 1) {
    if (loop.src[dim] == kSize && loop.dst[dim] == kSize) {
      // memmove: a damaged stored program may name operands that overlap. Their values are then unspecified.
      std::memmove(dst, src, static_cast<std::size_t>(loop.shape[dim] * kSize));
    } else {
      CopyLine<T>(loop.shape[dim], src, loop.src[dim], dst, loop.dst[dim]);
    }
    return;
  }
  if (left == 2 && loop.src[dim] != 0 && std::abs(loop.src[dim]) < std::abs(loop.src[dim + 1])) {
    CopyPlane<T>(loop.shape[dim], loop.shape[dim + 1], src, loop.src[dim], loop.src[dim + 1], dst,
                 loop.dst[dim], loop.dst[dim + 1]);
    return;
  }
  if (left == 2 && loop.dst[dim + 1] == kSize) {
    if (loop.src[dim + 1] == kSize) {
      const std::int64_t bytes = loop.shape[dim + 1] * kSize;
      if (bytes <= kLongestSegment && loop.dst[dim] == bytes)
        return CopySegments(src, {loop.src[dim], bytes, loop.shape[dim]}, dst);
      if (bytes <= kLongestSegment)
        return SpreadSegments(src, loop.src[dim], bytes, dst, loop.dst[dim], loop.shape[dim]);
    } else if (loop.src[dim + 1] == -kSize && loop.shape[dim + 1] <= 4) {
      const auto copy = loop.shape[dim + 1] == 2   ? CopyShortReversed<T, 2>
                        : loop.shape[dim + 1] == 3 ? CopyShortReversed<T, 3>
                                                   : CopyShortReversed<T, 4>;
      return copy(loop.shape[dim], src, loop.src[dim], dst, loop.dst[dim]);
    } else if (loop.src[dim + 1] == 0 && loop.dst[dim] == loop.shape[dim + 1] * kSize) {
      return FindLineCopies(kSize).repeated(src, loop.src[dim] / kSize, dst, loop.shape[dim],
                                            loop.shape[dim + 1]);
    }
  }
  // Long lines of short segments.
  if (const std::int64_t bytes = loop.shape[loop.rank - 1] * kSize;
      left == 3 && loop.src[dim + 2] == kSize && loop.dst[dim + 2] == kSize && loop.dst[dim + 1] == bytes &&
      bytes <= kLongestSegment / 2 && loop.shape[dim + 1] >= kLongLine)
    return CopySegments(
        src, {loop.src[dim + 1], bytes, loop.shape[dim + 1], loop.shape[dim], loop.src[dim], loop.dst[dim]},
        dst);
  // A plane of short segments: those of the longer dimension one after the other.
  if (left == 3 && loop.src[dim + 2] == kSize && loop.dst[dim + 2] == kSize &&
      loop.shape[dim + 2] * kSize <= kLongestSegment && loop.shape[dim] > loop.shape[dim + 1]) {
    for (std::int64_t i = 0; i < loop.shape[dim]; i += kSegmentsAtOnce) {
      for (std::int64_t j = 0; j < loop.shape[dim + 1]; ++j)
        SpreadSegments(src + i * loop.src[dim] + j * loop.src[dim + 1], loop.src[dim],
                       loop.shape[dim + 2] * kSize, dst + i * loop.dst[dim] + j * loop.dst[dim + 1],
                       loop.dst[dim], std::min(kSegmentsAtOnce, loop.shape[dim] - i));
    }
    return;
  }
  for (std::int64_t i = 0; i < loop.shape[dim]; ++i) {
    CopyDims<T>(loop, dim + 1, src + i * loop.src[dim], dst + i * loop.dst[dim]);
  }
}

template <typename T>
void CopyAll(ThreadPool* pool, const CopyLoop& loop, const char* src, char* dst) {
  if (pool == nullptr || loop.rank == 0 ||
      loop.total * static_cast<std::int64_t>(sizeof(T)) < kParallelBytes) {
    CopyDims<T>(loop, 0, src, dst);
    return;
  }
  // Split the outermost dimension that has at least one row per thread.
  int split = 0;
  while (split < loop.rank - 1 && loop.shape[split] < pool->size()) ++split;
  const std::int64_t grain = split == loop.rank - 1 ? 64 : 1;
  ParallelFor(*pool, loop.shape[split], grain, [&](std::int64_t begin, std::int64_t end) {
    CopyLoop part = loop;
    part.shape[split] = end - begin;
    CopyDims<T>(part, 0, src + begin * loop.src[split], dst + begin * loop.dst[split]);
  });
}

template <typename T>
void CopyOnce(const BoundCopy& bound, const char* src, char* dst) {
  CopyDims<T>(bound.loop, 0, src, dst);
}

bool SameStrides(const HostTensor& a, const HostTensor& b) {
  for (int d = 0; d < a.rank; ++d)
    if (a.shape[d] > 1 && a.strides[d] != b.strides[d]) return false;
  return true;
}

// Copies operand 0 to the result. Operand 1 is the BoundCopy.
void CallBound(const MicroArguments& m) {
  const auto& bound = *static_cast<const BoundCopy*>(m.operand[1]);
  bound.copy(bound, static_cast<const char*>(m.operand[0]), static_cast<char*>(m.result));
}

}  // namespace

BoundCopy BindCopy(const std::int64_t* shape, const HostTensor& src, const HostTensor& dst) {
  const std::size_t size = SizeOf(src.type);
  BoundCopy bound{
      Normalise(src.rank, shape, src.strides, dst.strides, static_cast<std::int64_t>(size)), nullptr, {}};
  bound.copy = size == 1   ? CopyOnce<std::uint8_t>
               : size == 2 ? CopyOnce<std::uint16_t>
               : size == 4 ? CopyOnce<std::uint32_t>
               : size == 8 ? CopyOnce<std::uint64_t>
                           : CopyOnce<Bytes16>;
  const CopyLoop& loop = bound.loop;
  if (loop.total == 0 || IsContiguous(loop, static_cast<std::int64_t>(size))) return bound;
  if (auto plan = PlanPermutedCopy(loop.rank, loop.shape, loop.src, loop.dst, size)) {
    bound.permuted = *std::move(plan);
    bound.copy = [](const BoundCopy& b, const char* from, char* to) {
      JAX_IPU_FOR_ISA(RunPermutedCopy)(b.permuted, from, to);
    };
  }
  return bound;
}

void CopyStrided(ThreadPool* pool, int rank, const std::int64_t* shape, const void* src,
                 const std::int64_t* src_strides, void* dst, const std::int64_t* dst_strides,
                 std::size_t element_size) {
  const CopyLoop loop =
      Normalise(rank, shape, src_strides, dst_strides, static_cast<std::int64_t>(element_size));
  if (loop.total == 0) return;
  const char* s = static_cast<const char*>(src);
  char* d = static_cast<char*>(dst);
  switch (element_size) {
    case 1:
      return CopyAll<std::uint8_t>(pool, loop, s, d);
    case 2:
      return CopyAll<std::uint16_t>(pool, loop, s, d);
    case 4:
      return CopyAll<std::uint32_t>(pool, loop, s, d);
    case 8:
      return CopyAll<std::uint64_t>(pool, loop, s, d);
    case 16:
      return CopyAll<Bytes16>(pool, loop, s, d);
    default:
      throw std::invalid_argument("CopyStrided: element size must be 1, 2, 4, 8 or 16 bytes");
  }
}

void CopyTensor(HostContext& context, const HostTensor& src, const HostTensor& dst) {
  if (src.data == dst.data && SameStrides(src, dst)) return;
  CopyStrided(&context.pool, src.rank, src.shape, src.data, src.strides, dst.data, dst.strides,
              SizeOf(src.type));
}

bool AddCopy(CallList* list, const HostTensor& src, const CallList::Place& from, const HostTensor& dst,
             const CallList::Place& to) {
  const bool same_strides = SameStrides(src, dst);
  if (src.data != nullptr && src.data == dst.data && same_strides) return true;
  if (!IsSmall(src)) return false;
  const BoundCopy bound = BindCopy(src.shape, src, dst);
  const auto size = static_cast<std::int64_t>(SizeOf(src.type));
  const CopyLoop& loop = bound.loop;
  if (IsContiguous(loop, size)) {
    list->AddMove(to, from, loop.total * size);
    return true;
  }
  // Without addresses, a strided copy of a tensor onto itself cannot be recognised.
  if (same_strides && (src.data == nullptr || dst.data == nullptr)) return false;
  list->Add(CallBound, to, {from, list->Keep(bound)}, loop.total);
  return true;
}

HostTensor SubTensor(const HostTensor& tensor, const std::int64_t* begin, const std::int64_t* shape) {
  HostTensor part = tensor;
  std::int64_t offset = 0;
  for (int d = 0; d < tensor.rank; ++d) {
    offset += begin[d] * tensor.strides[d];
    part.shape[d] = shape[d];
  }
  part.data = tensor.as<char>() + offset * static_cast<std::int64_t>(SizeOf(tensor.type));
  return part;
}

}  // namespace ipu_model
