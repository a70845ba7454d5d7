#include "pjrt_plugin/ipu_model/kernels/block_layout.h"

#include <algorithm>
#include <cstring>

namespace ipu_model {
namespace {

// Rows below this length are put together in blocks: a call for each would cost more than its work.
constexpr std::int64_t kShortRow = 256;

struct Word16 {
  std::uint64_t word[2];
};

// kGather: memory to dense; else dense to memory.
template <typename T, bool kGather>
void CopyRow(unsigned char* memory, std::int64_t stride, std::int64_t n, T* dense) {
  if (stride == static_cast<std::int64_t>(sizeof(T))) {
    T* p = reinterpret_cast<T*>(memory);
    if (n >= 64) {
      const auto bytes = static_cast<std::size_t>(n) * sizeof(T);
      kGather ? std::memcpy(dense, p, bytes) : std::memcpy(p, dense, bytes);
      return;
    }
    for (std::int64_t i = 0; i < n; ++i) kGather ? dense[i] = p[i] : p[i] = dense[i];
  } else if (kGather && stride == 0) {
    const T value = *reinterpret_cast<T*>(memory);
    for (std::int64_t i = 0; i < n; ++i) dense[i] = value;
  } else {
    for (std::int64_t i = 0; i < n; ++i) {
      T* p = reinterpret_cast<T*>(memory + i * stride);
      kGather ? dense[i] = *p : * p = dense[i];
    }
  }
}

template <typename T, bool kGather>
void CopyBlock(const BlockLayout& layout, const Walk& walk, std::int64_t row, std::int64_t begin,
               std::int64_t count, T* dense) {
  const int inner = layout.rank - 1;
  const std::int64_t stride = walk.strides[inner];
  if (!layout.short_rows)
    return CopyRow<T, kGather>(RowAddress(layout, walk, row) + begin * stride, stride, count, dense);
  // Rows follow each other like the digits of a counter.
  std::int64_t index[kMaxRank] = {};
  std::int64_t rest = row;
  for (int d = inner - 1; d >= 0; --d) {
    index[d] = rest % layout.extents[d];
    rest /= layout.extents[d];
  }
  unsigned char* memory = RowAddress(layout, walk, row);
  const std::int64_t length = layout.row_length;
  for (std::int64_t done = 0; done < count; done += length) {
    CopyRow<T, kGather>(memory, stride, length, dense + done);
    for (int d = inner - 1; d >= 0; --d) {
      memory += walk.strides[d];
      if (++index[d] < layout.extents[d]) break;
      memory -= walk.strides[d] * layout.extents[d];
      index[d] = 0;
    }
  }
}

template <bool kGather>
void CopyBlockOfSize(const BlockLayout& layout, const Walk& walk, std::int64_t row, std::int64_t begin,
                     std::int64_t count, void* dense) {
  switch (walk.size) {
    case 1:
      return CopyBlock<std::uint8_t, kGather>(layout, walk, row, begin, count,
                                              static_cast<std::uint8_t*>(dense));
    case 2:
      return CopyBlock<std::uint16_t, kGather>(layout, walk, row, begin, count,
                                               static_cast<std::uint16_t*>(dense));
    case 4:
      return CopyBlock<std::uint32_t, kGather>(layout, walk, row, begin, count,
                                               static_cast<std::uint32_t*>(dense));
    case 8:
      return CopyBlock<std::uint64_t, kGather>(layout, walk, row, begin, count,
                                               static_cast<std::uint64_t*>(dense));
    default:
      return CopyBlock<Word16, kGather>(layout, walk, row, begin, count, static_cast<Word16*>(dense));
  }
}

}  // namespace

BlockLayout MakeBlockLayout(const HostTensor* const* tensors, int count, int order_by,
                            std::int64_t block_elements, Walk* walks) {
  BlockLayout layout;
  const HostTensor& leader = *tensors[order_by];
  int order[kMaxRank];
  int used = 0;
  for (int d = 0; d < leader.rank; ++d) {
    if (leader.shape[d] == 1) continue;
    int at = used++;
    const auto magnitude = [&](int dim) { return std::abs(leader.strides[dim]); };
    for (; at > 0 && magnitude(order[at - 1]) < magnitude(d); --at) order[at] = order[at - 1];
    order[at] = d;
  }
  for (int t = 0; t < count; ++t) {
    walks[t].base = static_cast<unsigned char*>(tensors[t]->data);
    walks[t].size = static_cast<std::int64_t>(SizeOf(tensors[t]->type));
  }
  for (int k = 0; k < used; ++k) {
    const int d = order[k];
    const std::int64_t extent = leader.shape[d];
    bool merge = layout.rank > 0;
    for (int t = 0; merge && t < count; ++t)
      merge = walks[t].strides[layout.rank - 1] == tensors[t]->strides[d] * walks[t].size * extent;
    if (!merge) ++layout.rank;
    layout.extents[layout.rank - 1] = merge ? layout.extents[layout.rank - 1] * extent : extent;
    for (int t = 0; t < count; ++t)
      walks[t].strides[layout.rank - 1] = tensors[t]->strides[d] * walks[t].size;
  }
  if (layout.rank == 0) {
    layout.rank = 1;
    layout.extents[0] = 1;
    for (int t = 0; t < count; ++t) walks[t].strides[0] = walks[t].size;
  }
  layout.row_length = layout.extents[layout.rank - 1];
  for (int d = 0; d + 1 < layout.rank; ++d) layout.rows *= layout.extents[d];
  layout.short_rows = layout.rank > 1 && layout.row_length < kShortRow;
  if (layout.short_rows) {
    layout.rows_per_block = std::clamp<std::int64_t>(block_elements / layout.row_length, 1, layout.rows);
  } else {
    layout.pieces_per_row = (layout.row_length + block_elements - 1) / block_elements;
    const std::int64_t even = (layout.row_length + layout.pieces_per_row - 1) / layout.pieces_per_row;
    layout.piece = std::min((even + 63) / 64 * 64, block_elements);
  }
  return layout;
}

BlockForm FormOf(const BlockLayout& layout, const Walk& walk) {
  const int inner = layout.rank - 1;
  const std::int64_t stride = walk.strides[inner];
  if (!layout.short_rows)
    return stride == walk.size ? BlockForm::kContiguous
           : stride == 0       ? BlockForm::kScalar
                               : BlockForm::kStrided;
  bool dense = true, same = true;
  std::int64_t expected = walk.size;
  for (int d = inner; d >= 0; --d) {
    dense = dense && walk.strides[d] == expected;
    expected *= layout.extents[d];
    if (d < inner) same = same && walk.strides[d] == 0;
  }
  if (dense) return BlockForm::kContiguous;
  if (!same) return BlockForm::kStrided;
  return stride == 0 ? BlockForm::kScalar : BlockForm::kPeriodic;
}

unsigned char* RowAddress(const BlockLayout& layout, const Walk& walk, std::int64_t row) {
  unsigned char* address = walk.base;
  for (int d = layout.rank - 2; d > 0; --d) {
    address += row % layout.extents[d] * walk.strides[d];
    row /= layout.extents[d];
  }
  return layout.rank > 1 ? address + row * walk.strides[0] : address;
}

void GatherBlock(const BlockLayout& layout, const Walk& walk, std::int64_t row, std::int64_t begin,
                 std::int64_t count, void* dense) {
  CopyBlockOfSize<true>(layout, walk, row, begin, count, dense);
}

void ScatterBlock(const BlockLayout& layout, const Walk& walk, std::int64_t row, std::int64_t begin,
                  std::int64_t count, const void* dense) {
  CopyBlockOfSize<false>(layout, walk, row, begin, count, const_cast<void*>(dense));
}

}  // namespace ipu_model
