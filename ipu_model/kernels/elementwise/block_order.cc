#include "kernels/elementwise/block_order.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "kernels/copy/line_copy.h"
#include "kernels/copy/transpose.h"
#include "kernels/host/integer_division.h"

namespace ipu_model {
namespace {

// From this byte stride on, every element of a row is in a cache line of its own.
constexpr std::int64_t kFarApart = 64;
constexpr std::int64_t kTileColumns = 64, kLeastTileRows = 8;
// Rows of at least as many elements are worth a call each.
constexpr std::int64_t kLongRow = 32;
// At least as many bytes are worth a call of memcpy.
constexpr std::size_t kLongCopy = 64;

struct Word16 {
  std::uint64_t word[2];
};

// Copies n strided elements: memory to dense if kGather, else dense to memory.
template <typename T, bool kGather>
void CopyRow(unsigned char* memory, std::int64_t stride, std::int64_t n, T* dense) {
  if (stride == static_cast<std::int64_t>(sizeof(T))) {
    T* p = reinterpret_cast<T*>(memory);
    const auto bytes = static_cast<std::size_t>(n) * sizeof(T);
    if (bytes >= kLongCopy) {
      kGather ? std::memcpy(dense, p, bytes) : std::memcpy(p, dense, bytes);
      return;
    }
    for (std::int64_t i = 0; i < n; ++i) kGather ? dense[i] = p[i] : p[i] = dense[i];
  } else if (kGather && stride == 0) {
    const T value = *reinterpret_cast<T*>(memory);
    for (std::int64_t i = 0; i < n; ++i) dense[i] = value;
  } else if (kGather && stride > 0 && n >= kLongRow) {
    FindLineCopies(sizeof(T)).picked(memory, stride / static_cast<std::int64_t>(sizeof(T)), dense, n);
  } else if (!kGather && stride > 0 && n >= kLongRow) {
    SpreadSegments(dense, sizeof(T), sizeof(T), memory, stride, n);
  } else {
    for (std::int64_t i = 0; i < n; ++i) {
      T* p = reinterpret_cast<T*>(memory + i * stride);
      kGather ? dense[i] = *p : * p = dense[i];
    }
  }
}

// Copies rows that lie a constant stride apart in memory.
template <typename T, bool kGather>
void CopyRows(unsigned char* memory, std::int64_t row_stride, std::int64_t stride, std::int64_t rows,
              std::int64_t length, T* dense) {
  constexpr auto kSize = static_cast<std::int64_t>(sizeof(T));
  if (stride != 0 && row_stride == length * stride)
    return CopyRow<T, kGather>(memory, stride, rows * length, dense);
  if constexpr (!kGather) {
    const std::int64_t bytes = length * kSize;
    if (stride == kSize && bytes <= kLongestSegment)
      return SpreadSegments(dense, bytes, bytes, memory, row_stride, rows);
  }
  if constexpr (kGather) {
    const std::int64_t bytes = length * kSize;
    if (stride == kSize && row_stride > 0 && bytes <= kLongestSegment)
      return CopySegments(memory, {row_stride, bytes, rows}, dense);
    if (stride == 0)  // each element several times
      return FindLineCopies(sizeof(T)).repeated(memory, row_stride / kSize, dense, rows, length);
    if (row_stride == 0) {  // one row several times: what is there is copied behind itself
      if (rows > 0) CopyRow<T, true>(memory, stride, length, dense);
      for (std::int64_t done = 1; done < rows; done *= 2)
        std::copy_n(dense, std::min(done, rows - done) * length, dense + done * length);
      return;
    }
  }
  for (std::int64_t r = 0; r < rows; ++r)
    CopyRow<T, kGather>(memory + r * row_stride, stride, length, dense + r * length);
}

// Copies a block column by column. Columns are contiguous in memory, or nearly so.
template <typename T, bool kGather>
void CopyColumns(unsigned char* memory, std::int64_t row_stride, std::int64_t column_stride,
                 const Block& block, T* dense) {
  std::int64_t squares_r = 0, squares_c = 0;  // rows and columns that are copied in squares
  if constexpr (sizeof(T) <= 8) {
    constexpr std::int64_t kSide = kTransposeSide<T>, kLine = kLineElements<T>;
    std::int64_t lines_r = 0, lines_c = 0;  // rows and columns that are copied in squares of cache lines
    if (row_stride == static_cast<std::int64_t>(sizeof(T))) {
      squares_r = block.rows / kSide * kSide;
      squares_c = block.length / kSide * kSide;
      lines_r = block.rows / kLine * kLine;
      lines_c = block.length / kLine * kLine;
    }
    const auto dense_stride = block.length * static_cast<std::int64_t>(sizeof(T));
    const auto copy = [&](auto transpose, std::int64_t r, std::int64_t c) {
      unsigned char* outside = memory + r * row_stride + c * column_stride;
      auto* inside = reinterpret_cast<unsigned char*>(dense + r * block.length + c);
      kGather ? transpose(outside, column_stride, inside, dense_stride)
              : transpose(inside, dense_stride, outside, column_stride);
    };
    const TransposeFunction transpose_lines = FindTransposeLines(sizeof(T));
    const auto transpose_square = [](const unsigned char* from, std::int64_t from_stride, unsigned char* to,
                                     std::int64_t to_stride) {
      TransposeSquare<T>(from, from_stride, to, to_stride);
    };
    for (std::int64_t c = 0; c < squares_c; c += kSide) {
      // Prefetch the next block's columns: hardware prefetchers miss this stride.
      for (std::int64_t k = c; kGather && k < c + kSide; ++k) {
        const unsigned char* next = memory + (block.length + k) * column_stride;
        for (std::int64_t b = 0; b < squares_r * row_stride; b += kFarApart)
          __builtin_prefetch(next + b, 0, 2);
      }
      const bool in_lines = c < lines_c;
      for (std::int64_t r = 0; in_lines && c % kLine == 0 && r < lines_r; r += kLine)
        copy(transpose_lines, r, c);
      for (std::int64_t r = in_lines ? lines_r : 0; r < squares_r; r += kSide) copy(transpose_square, r, c);
    }
  }
  for (std::int64_t c = 0; c < block.length; ++c) {
    for (std::int64_t r = c < squares_c ? squares_r : 0; r < block.rows; ++r) {
      T* p = reinterpret_cast<T*>(memory + r * row_stride + c * column_stride);
      T& d = dense[r * block.length + c];
      kGather ? d = *p : * p = d;
    }
  }
}

// The index in the first `dims` dimensions of a row, or of a group of rows.
void RowIndex(const BlockOrder& order, std::int64_t row, int dims, std::int64_t* index) {
  for (int d = dims - 1; d >= 0; --d) {
    index[d] = row % order.extents[d];
    row /= order.extents[d];
  }
}

// Increments the index in the first `dims` dimensions like a mixed-radix counter; returns how far memory
// moves.
std::int64_t Advance(const BlockOrder& order, const Walk& walk, int dims, std::int64_t* index) {
  std::int64_t moved = 0;
  for (int d = dims - 1; d >= 0; --d) {
    moved += walk.strides[d];
    if (++index[d] < order.extents[d]) break;
    moved -= walk.strides[d] * order.extents[d];
    index[d] = 0;
  }
  return moved;
}

// Copies the first `length` elements of rows, from row `first` on. Rows along the next dimension are copied
// together.
template <typename T, bool kGather>
void CopyShortRows(const BlockOrder& order, const Walk& walk, std::int64_t first, std::int64_t count,
                   std::int64_t length, T* dense) {
  const int inner = order.rank - 1, next = inner - 1;
  unsigned char* memory = RowAddress(order, walk, first);
  std::int64_t index[kMaxRank];
  RowIndex(order, first, inner, index);
  for (std::int64_t r = 0; r < count;) {
    const std::int64_t rows = std::min(order.extents[next] - index[next], count - r);
    CopyRows<T, kGather>(memory, walk.strides[next], walk.strides[inner], rows, length, dense + r * length);
    r += rows;
    memory -= walk.strides[next] * index[next];
    index[next] = 0;
    memory += Advance(order, walk, next, index);
  }
}

// The inner dimensions, from `dim` on, of which every element is near the first.
struct NearTile {
  int dim = 0;  // 0: there is none
  std::int64_t rows = 1, count = 0;
  std::uint8_t place[LineCopies::kLargestTile];
};

NearTile FindTile(const BlockOrder& order, const Walk& walk) {
  NearTile tile;
  const int inner = order.rank - 1;
  std::int64_t count = 1, reach = 0;
  for (int d = inner; d > 0; --d) {
    const std::int64_t extent = order.extents[d], stride = walk.strides[d];
    reach += (extent - 1) * stride / walk.size;
    if (stride < 0 || stride % walk.size != 0 || count * extent > LineCopies::kLargestTile ||
        reach >= LineCopies::kTileReach)
      break;
    count *= extent;
    if (d == inner) continue;
    tile.dim = d;
    tile.rows *= extent;
    tile.count = count;
  }
  for (std::int64_t j = 0; j < tile.count; ++j) {
    std::int64_t rest = j, place = 0;
    for (int d = inner; d >= tile.dim; --d) {
      place += rest % order.extents[d] * walk.strides[d] / walk.size;
      rest /= order.extents[d];
    }
    tile.place[j] = static_cast<std::uint8_t>(place);
  }
  return tile;
}

// Copies a block of short rows to `dense`. Where several of them are a small tile, whole tiles are copied at
// a time.
template <typename T>
void GatherShortRows(const BlockOrder& order, const Walk& walk, const Block& block, T* dense) {
  const std::int64_t length = block.length;
  const NearTile tile = FindTile(order, walk);
  const bool whole = length == order.row_length && tile.dim > 0;
  const std::int64_t before = !whole ? block.rows : (tile.rows - block.row % tile.rows) % tile.rows;
  if (before + 2 * tile.rows > block.rows)
    return CopyShortRows<T, true>(order, walk, block.row, block.rows, block.length, dense);
  const std::int64_t tiles = (block.rows - before) / tile.rows, first = block.row + before;
  const int outer = tile.dim - 1;
  CopyShortRows<T, true>(order, walk, block.row, before, length, dense);
  dense += before * length;
  const auto copy = FindLineCopies(sizeof(T)).tiled;
  unsigned char* memory = RowAddress(order, walk, first);
  std::int64_t index[kMaxRank];
  RowIndex(order, first / tile.rows, tile.dim, index);
  for (std::int64_t t = 0; t < tiles;) {
    const std::int64_t count = std::min(order.extents[outer] - index[outer], tiles - t);
    copy(memory, walk.strides[outer] / walk.size, tile.place, tile.count, dense, count);
    t += count;
    dense += count * tile.count;
    memory -= walk.strides[outer] * index[outer];
    index[outer] = 0;
    memory += Advance(order, walk, outer, index);
  }
  const std::int64_t done = before + tiles * tile.rows;
  CopyShortRows<T, true>(order, walk, block.row + done, block.rows - done, length, dense);
}

template <typename T, bool kGather>
void CopyBlock(const BlockOrder& order, const Walk& walk, const Block& block, T* dense) {
  const int inner = order.rank - 1;
  const std::int64_t stride = walk.strides[inner];
  unsigned char* memory = RowAddress(order, walk, block.row) + block.begin * stride;
  if (block.rows == 1) return CopyRow<T, kGather>(memory, stride, block.length, dense);
  if (order.kind == BlockOrder::Kind::kTiles) {
    const std::int64_t row_stride = walk.strides[inner - 1];
    if (std::abs(row_stride) < std::abs(stride))
      return CopyColumns<T, kGather>(memory, row_stride, stride, block, dense);
    for (std::int64_t r = 0; r < block.rows; ++r)
      CopyRow<T, kGather>(memory + r * row_stride, stride, block.length, dense + r * block.length);
    return;
  }
  if (inner == 0) return CopyRow<T, kGather>(memory, stride, block.length, dense);
  if constexpr (kGather) {
    GatherShortRows<T>(order, walk, block, dense);
  } else {
    CopyShortRows<T, false>(order, walk, block.row, block.rows, block.length, dense);
  }
}

template <bool kGather>
void CopyBlockOfSize(const BlockOrder& order, const Walk& walk, const Block& block, void* dense) {
  switch (walk.size) {
    case 1:
      return CopyBlock<std::uint8_t, kGather>(order, walk, block, static_cast<std::uint8_t*>(dense));
    case 2:
      return CopyBlock<std::uint16_t, kGather>(order, walk, block, static_cast<std::uint16_t*>(dense));
    case 4:
      return CopyBlock<std::uint32_t, kGather>(order, walk, block, static_cast<std::uint32_t*>(dense));
    case 8:
      return CopyBlock<std::uint64_t, kGather>(order, walk, block, static_cast<std::uint64_t*>(dense));
    default:
      return CopyBlock<Word16, kGather>(order, walk, block, static_cast<Word16*>(dense));
  }
}

// Returns the dimension for tiles: the one with the smallest stride, other than the innermost, of a tensor
// whose rows are far from contiguous. Returns -1 if rows suit all tensors.
int TiledDimension(const BlockOrder& order, const Walk* walks, int count) {
  const int inner = order.rank - 1;
  for (int t = 0; t < count; ++t) {
    const Walk& walk = walks[t];
    if (std::abs(walk.strides[inner]) < kFarApart) continue;
    int best = -1;
    for (int d = 0; d < inner; ++d) {
      const std::int64_t stride = std::abs(walk.strides[d]);
      if (stride == 0 || stride >= kFarApart || order.extents[d] < kLeastTileRows) continue;
      if (best < 0 || stride < std::abs(walk.strides[best])) best = d;
    }
    if (best >= 0) return best;
  }
  return -1;
}

// Moves dimension d next to the innermost one.
void MoveNextToInnermost(BlockOrder* order, Walk* walks, int count, int d) {
  for (; d < order->rank - 2; ++d) {
    std::swap(order->extents[d], order->extents[d + 1]);
    for (int t = 0; t < count; ++t) std::swap(walks[t].strides[d], walks[t].strides[d + 1]);
  }
}

}  // namespace

BlockOrder MakeBlockOrder(const HostTensor* const* tensors, int count, int order_by,
                          std::int64_t block_elements, std::int64_t short_row, Walk* walks) {
  BlockOrder order;
  const HostTensor& leader = *tensors[order_by];
  int by_stride[kMaxRank];
  int used = 0;
  for (int d = 0; d < leader.rank; ++d) {
    if (leader.shape[d] == 1) continue;
    int at = used++;
    const auto magnitude = [&](int dim) { return std::abs(leader.strides[dim]); };
    for (; at > 0 && magnitude(by_stride[at - 1]) < magnitude(d); --at) by_stride[at] = by_stride[at - 1];
    by_stride[at] = d;
  }
  for (int t = 0; t < count; ++t) {
    walks[t].base = static_cast<unsigned char*>(tensors[t]->data);
    walks[t].size = static_cast<std::int64_t>(SizeOf(tensors[t]->type));
  }
  for (int k = 0; k < used; ++k) {
    const int d = by_stride[k];
    const std::int64_t extent = leader.shape[d];
    bool merge = order.rank > 0;
    for (int t = 0; merge && t < count; ++t)
      merge = walks[t].strides[order.rank - 1] == tensors[t]->strides[d] * walks[t].size * extent;
    if (!merge) ++order.rank;
    order.extents[order.rank - 1] = merge ? order.extents[order.rank - 1] * extent : extent;
    for (int t = 0; t < count; ++t) walks[t].strides[order.rank - 1] = tensors[t]->strides[d] * walks[t].size;
  }
  if (order.rank == 0) {
    order.rank = 1;
    order.extents[0] = 1;
    for (int t = 0; t < count; ++t) walks[t].strides[0] = walks[t].size;
  }
  order.row_length = order.extents[order.rank - 1];
  for (int d = 0; d + 1 < order.rank; ++d) order.rows *= order.extents[d];
  const int tiled = order.row_length >= kTileColumns ? TiledDimension(order, walks, count) : -1;
  if (tiled >= 0) {
    MoveNextToInnermost(&order, walks, count, tiled);
    order.kind = BlockOrder::Kind::kTiles;
    order.piece = kTileColumns;
    order.group =
        std::min(std::max<std::int64_t>(1, block_elements / kTileColumns), order.extents[order.rank - 2]);
    order.groups = CeilDivide(order.extents[order.rank - 2], order.group);
  } else if (order.rank > 1 && order.row_length < short_row) {
    order.kind = BlockOrder::Kind::kShortRows;
    order.piece = order.row_length;
    order.group = std::clamp<std::int64_t>(block_elements / order.row_length, 1, order.rows);
    order.groups = CeilDivide(order.rows, order.group);
  } else {
    const std::int64_t even = CeilDivide(order.row_length, CeilDivide(order.row_length, block_elements));
    order.piece = std::min(CeilDivide(even, 64) * 64, block_elements);
  }
  order.pieces = CeilDivide(order.row_length, order.piece);
  return order;
}

std::int64_t BlockOrder::num_blocks() const {
  switch (kind) {
    case Kind::kRows:
      return rows * pieces;
    case Kind::kShortRows:
      return groups;
    case Kind::kTiles:
      return rows / extents[rank - 2] * pieces * groups;
  }
  return 0;
}

Block BlockOrder::At(std::int64_t index) const {
  switch (kind) {
    case Kind::kRows: {
      if (pieces == 1) return {index, 0, 1, row_length};  // the usual case avoids the divisions
      const std::int64_t begin = index % pieces * piece;
      return {index / pieces, begin, 1, std::min(piece, row_length - begin)};
    }
    case Kind::kShortRows:
      return {index * group, 0, std::min(group, rows - index * group), row_length};
    case Kind::kTiles: {
      const std::int64_t height = extents[rank - 2];
      const std::int64_t begin = index % pieces * piece, first = index / pieces % groups * group;
      const std::int64_t outer = index / groups / pieces;
      return {outer * height + first, begin, std::min(group, height - first),
              std::min(piece, row_length - begin)};
    }
  }
  return {0, 0, 0, 0};
}

BlockForm FormOf(const BlockOrder& order, const Walk& walk) {
  const int inner = order.rank - 1;
  const std::int64_t stride = walk.strides[inner];
  if (order.kind == BlockOrder::Kind::kRows)
    return stride == walk.size ? BlockForm::kContiguous
           : stride == 0       ? BlockForm::kScalar
                               : BlockForm::kStrided;
  if (order.kind == BlockOrder::Kind::kTiles)
    return stride == 0 && walk.strides[inner - 1] == 0 ? BlockForm::kScalar : BlockForm::kStrided;
  bool dense = true, same = true;
  std::int64_t expected = walk.size;
  for (int d = inner; d >= 0; --d) {
    dense = dense && walk.strides[d] == expected;
    expected *= order.extents[d];
    if (d < inner) same = same && walk.strides[d] == 0;
  }
  if (dense) return BlockForm::kContiguous;
  if (!same) return BlockForm::kStrided;
  return stride == 0 ? BlockForm::kScalar : BlockForm::kPeriodic;
}

void GatherBlock(const BlockOrder& order, const Walk& walk, const Block& block, void* dense) {
  CopyBlockOfSize<true>(order, walk, block, dense);
}

void ScatterBlock(const BlockOrder& order, const Walk& walk, const Block& block, const void* dense) {
  CopyBlockOfSize<false>(order, walk, block, const_cast<void*>(dense));
}

}  // namespace ipu_model
