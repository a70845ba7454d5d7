// How an elementwise kernel walks over its tensors: dimensions in the output's memory order, merged where all
// tensors allow, cut into blocks that stay in the first-level cache.
#ifndef IPU_MODEL_KERNELS_ELEMENTWISE_BLOCK_LAYOUT_H_
#define IPU_MODEL_KERNELS_ELEMENTWISE_BLOCK_LAYOUT_H_

#include <cstdint>

#include "kernels/host/host_tensor.h"

namespace ipu_model {

// Byte strides of one tensor over the merged dimensions.
struct Walk {
  unsigned char* base;
  std::int64_t size;  // of an element
  std::int64_t strides[kMaxRank];
};

// `rows` rows from `row` on, of each the `length` elements from `begin` on.
struct Block {
  std::int64_t row, begin, rows, length;
  std::int64_t count() const { return rows * length; }
};

struct BlockLayout {
  int rank = 0;
  std::int64_t extents[kMaxRank];
  std::int64_t rows = 1, row_length = 1;  // row = innermost dimension
  // kRows: a block is a piece of one row. kShortRows: several whole rows. kTiles: a rectangle of the two
  // innermost dimensions, for tensors that are contiguous along the outer one of them.
  enum class Kind { kRows, kShortRows, kTiles } kind = Kind::kRows;
  std::int64_t piece = 1, pieces = 1;  // of a row
  std::int64_t group = 1, groups = 1;  // rows of a block; blocks of rows (kTiles: per outer index)
  std::int64_t block_elements() const { return piece * group; }  // at most
  std::int64_t num_blocks() const;
  Block At(std::int64_t index) const;  // may be empty at the end of a row
};

// Fills `walks` (one per tensor) for tensors of one shape with at least one element; the order follows the
// strides of tensors[order_by]. block_elements: the most elements of a block. Rows below `short_row` elements
// are put together in blocks.
BlockLayout MakeBlockLayout(const HostTensor* const* tensors, int count, int order_by,
                            std::int64_t block_elements, std::int64_t short_row, Walk* walks);

// What a block of a tensor is in memory.
enum class BlockForm { kContiguous, kScalar, kPeriodic, kStrided };
// kPeriodic: the same for every block (short rows only).
BlockForm FormOf(const BlockLayout& layout, const Walk& walk);

// Address of row `row`'s first element.
inline unsigned char* RowAddress(const BlockLayout& layout, const Walk& walk, std::int64_t row) {
  unsigned char* address = walk.base;
  for (int d = layout.rank - 2; d > 0; --d) {
    address += row % layout.extents[d] * walk.strides[d];
    row /= layout.extents[d];
  }
  return layout.rank > 1 ? address + row * walk.strides[0] : address;
}

// Copies a block to or from dense memory.
void GatherBlock(const BlockLayout& layout, const Walk& walk, const Block& block, void* dense);
void ScatterBlock(const BlockLayout& layout, const Walk& walk, const Block& block, const void* dense);

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_ELEMENTWISE_BLOCK_LAYOUT_H_
