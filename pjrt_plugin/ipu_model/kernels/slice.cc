// Strided n-dimensional copies and dynamic slices.
#include "pjrt_plugin/ipu_model/kernels/slice.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "pjrt_plugin/ipu_model/kernels/transpose.h"

namespace ipu_model {
namespace {

// Below this many bytes waking a worker costs more than the copy (facts: 16k elements with hot workers).
constexpr std::int64_t kParallelBytes = 128 << 10;
constexpr std::int64_t kLineBytes = 64;  // of a cache

// A copy with unit dimensions dropped, dimensions ordered by destination stride and neighbours merged.
// Strides in bytes.
struct CopyLoop {
  int rank = 0;
  std::int64_t shape[kMaxRank], src[kMaxRank], dst[kMaxRank];
  std::int64_t total = 1;
};

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
  // Insertion sort, stable: outermost = largest destination stride, ties by source stride.
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
  } else if (ds == 1) {
    for (std::int64_t i = 0; i < n; ++i) d[i] = s[i * ss];
  } else {
    for (std::int64_t i = 0; i < n; ++i) d[i * ds] = s[i * ss];
  }
}

// A square of cache lines, source along rows, destination along columns. It goes through a buffer: lines that
// are a power of two apart share cache sets, so each must be touched once only.
template <typename T>
void TransposeLines(const char* src, std::int64_t src_column, char* dst, std::int64_t dst_row) {
  constexpr std::int64_t kSize = sizeof(T), kSide = kLineBytes / kSize, kSquare = kTransposeSide<T>;
  alignas(kLineBytes) unsigned char buffer[kSide * kLineBytes];
  for (std::int64_t c = 0; c < kSide; c += kSquare) {
    for (std::int64_t r = 0; r < kSide; r += kSquare) {
      TransposeSquare<T>(reinterpret_cast<const unsigned char*>(src + r * kSize + c * src_column), src_column,
                         buffer + r * kLineBytes + c * kSize, kLineBytes);
    }
  }
  for (std::int64_t r = 0; r < kSide; ++r)
    std::memcpy(dst + r * dst_row, buffer + r * kLineBytes, kLineBytes);
}

// A plane whose source runs along the outer dimension: blocks that stay in cache on both sides.
template <typename T>
void CopyPlane(std::int64_t rows, std::int64_t columns, const char* src, std::int64_t src_row,
               std::int64_t src_column, char* dst, std::int64_t dst_row, std::int64_t dst_column) {
  constexpr auto kSize = static_cast<std::int64_t>(sizeof(T));
  constexpr std::int64_t kBlock = std::max<std::int64_t>(kLineBytes / kSize, 8);
  const bool contiguous = src_row == kSize && dst_column == kSize;
  for (std::int64_t r = 0; r < rows; r += kBlock) {
    const std::int64_t nr = std::min(kBlock, rows - r);
    for (std::int64_t c = 0; c < columns; c += kBlock) {
      const std::int64_t nc = std::min(kBlock, columns - c);
      const char* from = src + r * src_row + c * src_column;
      char* to = dst + r * dst_row + c * dst_column;
      if constexpr (kSize <= 8) {
        if (contiguous && nr == kBlock && nc == kBlock) {
          TransposeLines<T>(from, src_column, to, dst_row);
          continue;
        }
      }
      for (std::int64_t i = 0; i < nr; ++i) {
        CopyLine<T>(nc, from + i * src_row, src_column, to + i * dst_row, dst_column);
      }
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
      std::memcpy(dst, src, static_cast<std::size_t>(loop.shape[dim] * kSize));
    } else {
      CopyLine<T>(loop.shape[dim], src, loop.src[dim], dst, loop.dst[dim]);
    }
    return;
  }
  if (left == 2 && loop.src[dim + 1] != 0 && std::abs(loop.src[dim]) < std::abs(loop.src[dim + 1])) {
    CopyPlane<T>(loop.shape[dim], loop.shape[dim + 1], src, loop.src[dim], loop.src[dim + 1], dst,
                 loop.dst[dim], loop.dst[dim + 1]);
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
  // Split the outermost dimension that has enough to share.
  int split = 0;
  while (split < loop.rank - 1 && loop.shape[split] < pool->size()) ++split;
  const std::int64_t grain = split == loop.rank - 1 ? 64 : 1;
  ParallelFor(*pool, loop.shape[split], grain, [&](std::int64_t begin, std::int64_t end) {
    CopyLoop part = loop;
    part.shape[split] = end - begin;
    CopyDims<T>(part, 0, src + begin * loop.src[split], dst + begin * loop.dst[split]);
  });
}

void ClampedStarts(const HostTensor& operand, const HostTensor* starts, const std::int64_t* sizes,
                   std::int64_t* out) {
  for (int d = 0; d < operand.rank; ++d) {
    const std::int64_t start = ReadIndex(starts[d].type, starts[d].data);
    out[d] = std::clamp<std::int64_t>(start, 0, operand.shape[d] - sizes[d]);
  }
}

}  // namespace

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
  bool same = src.data == dst.data;
  for (int d = 0; same && d < src.rank; ++d) same = src.shape[d] <= 1 || src.strides[d] == dst.strides[d];
  if (same) return;
  CopyStrided(&context.pool, src.rank, src.shape, src.data, src.strides, dst.data, dst.strides,
              SizeOf(src.type));
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

std::int64_t ReadIndex(DType type, const void* data) {
  switch (type) {
    case DType::kS2:
    case DType::kS4:
    case DType::kS8:
      return *static_cast<const std::int8_t*>(data);
    case DType::kS16:
      return *static_cast<const std::int16_t*>(data);
    case DType::kS32:
      return *static_cast<const std::int32_t*>(data);
    case DType::kS64:
      return *static_cast<const std::int64_t*>(data);
    case DType::kPred:
    case DType::kU2:
    case DType::kU4:
    case DType::kU8:
      return *static_cast<const std::uint8_t*>(data);
    case DType::kU16:
      return *static_cast<const std::uint16_t*>(data);
    case DType::kU32:
      return *static_cast<const std::uint32_t*>(data);
    case DType::kU64: {
      const std::uint64_t value = *static_cast<const std::uint64_t*>(data);
      constexpr std::uint64_t kMax = std::numeric_limits<std::int64_t>::max();
      return static_cast<std::int64_t>(std::min(value, kMax));
    }
    default:
      throw std::invalid_argument(std::string("an index cannot have type ") + NameOf(type));
  }
}

void DynamicSlice(HostContext& context, const HostTensor& operand, const HostTensor* starts,
                  const HostTensor& out) {
  std::int64_t begin[kMaxRank];
  ClampedStarts(operand, starts, out.shape, begin);
  CopyTensor(context, SubTensor(operand, begin, out.shape), out);
}

void DynamicUpdateSlice(HostContext& context, const HostTensor& operand, const HostTensor& update,
                        const HostTensor* starts, const HostTensor& out) {
  std::int64_t begin[kMaxRank];
  ClampedStarts(operand, starts, update.shape, begin);
  CopyTensor(context, operand, out);
  CopyTensor(context, update, SubTensor(out, begin, update.shape));
}

}  // namespace ipu_model
