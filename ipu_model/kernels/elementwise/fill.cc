#include "kernels/elementwise/fill.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "kernels/elementwise/program/micro_op.h"
#include "kernels/host/integer_division.h"
#include "kernels/host/isa.h"
#include "kernels/vector/convert.h"

namespace ipu_model {
namespace {

struct Word16 {
  std::uint64_t word[2];
};

// Writes rows of the innermost dimension: element i of each row is values[i * step].
template <typename T>
void WriteRows(HostContext& context, const T* values, std::int64_t step, const HostTensor& out) {
  const int inner = out.rank - 1;
  const std::int64_t length = out.shape[inner], stride = out.strides[inner];
  const std::int64_t rows = out.num_elements() / length;
  constexpr std::int64_t kElementsForThreads = 1 << 16;
  const std::int64_t grain = std::max<std::int64_t>(1, kElementsForThreads / length);
  ParallelFor(context.pool, rows, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      T* p = out.as<T>();
      std::int64_t rest = row;
      for (int d = inner - 1; d >= 0; --d) {
        p += rest % out.shape[d] * out.strides[d];
        rest /= out.shape[d];
      }
      if (stride == 1 && step == 1) {
        std::memcpy(p, values, static_cast<std::size_t>(length) * sizeof(T));
      } else if (stride == 1) {
        std::fill_n(p, length, *values);
      } else {
        for (std::int64_t i = 0; i < length; ++i) p[i * stride] = values[i * step];
      }
    }
  });
}
void WriteRowsOfSize(HostContext& context, const void* values, std::int64_t step, const HostTensor& out) {
  switch (SizeOf(out.type)) {
    case 1:
      return WriteRows(context, static_cast<const std::uint8_t*>(values), step, out);
    case 2:
      return WriteRows(context, static_cast<const std::uint16_t*>(values), step, out);
    case 4:
      return WriteRows(context, static_cast<const std::uint32_t*>(values), step, out);
    case 8:
      return WriteRows(context, static_cast<const std::uint64_t*>(values), step, out);
    default:
      return WriteRows(context, static_cast<const Word16*>(values), step, out);
  }
}

// Writes start, start + 1, ... as elements of `type`.
void Count(std::int64_t start, std::int64_t n, DType type, void* values, HostContext& context) {
  const bool avx512 = HasAvx512();
  const MicroFunction convert =
      (avx512 ? avx512::FindConvert : avx2::FindConvert)(RegisterType::kS64, RegisterTypeOf(type));
  const MicroFunction store = (avx512 ? avx512::FindStore : avx2::FindStore)(type);
  // Without a store function, a register has the bytes of the element. Sub-byte integers are wrapped by a
  // load.
  const MicroFunction wrap = IsInteger(type) ? (avx512 ? avx512::FindLoad : avx2::FindLoad)(type) : nullptr;
  constexpr std::int64_t kBlock = 2048, kBlocksForThreads = 32;
  ParallelFor(
      context.pool, CeilDivide(n, kBlock), kBlocksForThreads, [&](std::int64_t first, std::int64_t end) {
        std::int64_t counter[kBlock];
        alignas(64) unsigned char registers[kBlock * 16];
        for (std::int64_t begin = first * kBlock; begin < std::min(n, end * kBlock); begin += kBlock) {
          const std::int64_t size = std::min(kBlock, n - begin);
          for (std::int64_t i = 0; i < size; ++i) counter[i] = start + begin + i;
          void* block = static_cast<unsigned char*>(values) + begin * static_cast<std::int64_t>(SizeOf(type));
          convert({store == nullptr ? block : registers, {counter}, size, 0, 0});
          if (store != nullptr) store({block, {registers}, size, 0, 0});
          if (wrap != nullptr) wrap({block, {block}, size, 0, 0});
        }
      });
}

// Splits the innermost dimension, so that the threads can share a long vector.
HostTensor SplitRows(const HostTensor& out) {
  HostTensor t = out;
  constexpr std::int64_t kRow = 1 << 15;
  const int inner = out.rank - 1;
  if (out.rank == kMaxRank || out.shape[inner] < 2 * kRow || out.shape[inner] % kRow != 0) return t;
  t.rank = out.rank + 1;
  t.shape[inner] = out.shape[inner] / kRow;
  t.strides[inner] = out.strides[inner] * kRow;
  t.shape[inner + 1] = kRow;
  t.strides[inner + 1] = out.strides[inner];
  return t;
}

}  // namespace

void Fill(HostContext& context, const void* value, const HostTensor& out) {
  if (out.num_elements() == 0) return;
  if (out.rank == 0) {
    std::memcpy(out.data, value, SizeOf(out.type));
    return;
  }
  // Dense memory in any order of dimensions is filled as one row.
  HostTensor t = out;
  std::int64_t expected = 1;
  int order[kMaxRank];
  for (int d = 0; d < out.rank; ++d) order[d] = d;
  std::sort(order, order + out.rank, [&](int a, int b) { return out.strides[a] < out.strides[b]; });
  bool dense = true;
  for (int k = 0; k < out.rank; ++k) {
    if (out.shape[order[k]] == 1) continue;
    dense = dense && out.strides[order[k]] == expected;
    expected *= out.shape[order[k]];
  }
  if (dense) {
    t.rank = 1;
    t.shape[0] = expected;
    t.strides[0] = 1;
  }
  WriteRowsOfSize(context, value, 0, SplitRows(t));
}

void Iota(HostContext& context, std::int64_t start, int dimension, const HostTensor& out) {
  assert(dimension < out.rank);
  if (out.num_elements() == 0) return;
  const std::int64_t n = out.shape[dimension];
  const std::size_t size = SizeOf(out.type);
  if (out.strides[dimension] == 1 && out.num_elements() == n)
    return Count(start, n, out.type, out.data, context);
  auto* values = static_cast<unsigned char*>(context.scratch.Allocate(static_cast<std::size_t>(n) * size));
  Count(start, n, out.type, values, context);
  // Make the counted dimension the innermost one, or fill its slices one by one.
  std::int64_t slice = out.num_elements() / n;
  if (out.strides[dimension] == 1 || slice < 64) {
    HostTensor t = out;
    std::swap(t.shape[dimension], t.shape[out.rank - 1]);
    std::swap(t.strides[dimension], t.strides[out.rank - 1]);
    WriteRowsOfSize(context, values, 1, t);
    return;
  }
  HostTensor t = out;
  for (int d = dimension; d + 1 < out.rank; ++d) {
    t.shape[d] = out.shape[d + 1];
    t.strides[d] = out.strides[d + 1];
  }
  --t.rank;
  for (std::int64_t i = 0; i < n; ++i) {
    t.data =
        static_cast<unsigned char*>(out.data) + i * out.strides[dimension] * static_cast<std::int64_t>(size);
    Fill(context, values + static_cast<std::size_t>(i) * size, t);
  }
}

}  // namespace ipu_model
