// The order in which an elementwise kernel visits its tensors: dimensions in the output's memory order,
// merged where all tensors allow it, and cut into blocks that stay in the first-level cache.
#ifndef IPU_MODEL_KERNELS_ELEMENTWISE_BLOCK_ORDER_H_
#define IPU_MODEL_KERNELS_ELEMENTWISE_BLOCK_ORDER_H_

#include <cstdint>

#include "kernels/host/host_tensor.h"

namespace ipu_model {

// Byte strides of one tensor over the merged dimensions.
struct Walk {
  unsigned char* base;
  std::int64_t size;  // bytes of an element
  std::int64_t strides[kMaxRank];
};

// The elements [begin, begin + length) of the rows [row, row + rows).
struct Block {
  std::int64_t row, begin, rows, length;
  std::int64_t count() const { return rows * length; }
};

struct BlockOrder {
  int rank = 0;
  std::int64_t extents[kMaxRank];
  std::int64_t rows = 1, row_length = 1;  // a row runs along the innermost dimension
  // kRows: a block is a piece of one row. kShortRows: a block is several whole rows. kTiles: a block is a
  // rectangle of the two innermost dimensions, for tensors that are contiguous along the outer of the two.
  enum class Kind { kRows, kShortRows, kTiles } kind = Kind::kRows;
  std::int64_t piece = 1, pieces = 1;  // elements of a piece of a row, pieces of a row
  std::int64_t group = 1, groups = 1;  // rows of a block, blocks of rows (kTiles: per outer index)
  std::int64_t block_elements() const { return piece * group; }  // upper bound
  std::int64_t num_blocks() const;
  Block At(std::int64_t index) const;  // may be empty at the end of a row
};

// Returns the order for `count` tensors of one shape with at least one element, and fills `walks`, one per
// tensor. Dimensions are sorted by the strides of tensors[order_by]. A block has at most `block_elements`
// elements. Several rows shorter than `short_row` elements share a block.
BlockOrder MakeBlockOrder(const HostTensor* const* tensors, int count, int order_by,
                          std::int64_t block_elements, std::int64_t short_row, Walk* walks);

// The memory layout of a tensor's block.
enum class BlockForm { kContiguous, kScalar, kPeriodic, kStrided };
// kPeriodic means that all blocks have the same contents (short rows only).
BlockForm FormOf(const BlockOrder& order, const Walk& walk);

// Returns the address of the first element of row `row`.
inline unsigned char* RowAddress(const BlockOrder& order, const Walk& walk, std::int64_t row) {
  unsigned char* address = walk.base;
  for (int d = order.rank - 2; d > 0; --d) {
    address += row % order.extents[d] * walk.strides[d];
    row /= order.extents[d];
  }
  return order.rank > 1 ? address + row * walk.strides[0] : address;
}

// Copies a block to or from dense memory.
void GatherBlock(const BlockOrder& order, const Walk& walk, const Block& block, void* dense);
void ScatterBlock(const BlockOrder& order, const Walk& walk, const Block& block, const void* dense);

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_ELEMENTWISE_BLOCK_ORDER_H_
