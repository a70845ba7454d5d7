// How an elementwise kernel walks over its tensors: dimensions in the output's memory order, merged where all
// tensors allow, cut into blocks that stay in the first-level cache.
#ifndef JAX_IPU_KERNELS_BLOCK_LAYOUT_H_
#define JAX_IPU_KERNELS_BLOCK_LAYOUT_H_

#include <cstdint>

#include "pjrt_plugin/ipu_model/kernels/host_tensor.h"

namespace ipu_model {

// Byte strides of one tensor over the merged dimensions.
struct Walk {
  unsigned char* base;
  std::int64_t size;  // of an element
  std::int64_t strides[kMaxRank];
};

struct BlockLayout {
  int rank = 0;
  std::int64_t extents[kMaxRank];
  std::int64_t rows = 1, row_length = 1;  // row = innermost dimension
  // A block is a piece of one row, or several whole rows when these are short.
  bool short_rows = false;
  std::int64_t pieces_per_row = 1, piece = 1, rows_per_block = 1;

  std::int64_t num_blocks() const {
    return short_rows ? (rows + rows_per_block - 1) / rows_per_block : rows * pieces_per_row;
  }
};

// Fills `walks` (one per tensor) for tensors of one shape with at least one element; the order follows the
// strides of tensors[order_by]. block_elements: the most elements of a block.
BlockLayout MakeBlockLayout(const HostTensor* const* tensors, int count, int order_by,
                            std::int64_t block_elements, Walk* walks);

// What a block of a tensor is in memory.
enum class BlockForm { kContiguous, kScalar, kPeriodic, kStrided };
// kPeriodic: the same for every block (short rows only).
BlockForm FormOf(const BlockLayout& layout, const Walk& walk);

// Address of row `row`'s first element.
unsigned char* RowAddress(const BlockLayout& layout, const Walk& walk, std::int64_t row);

// Copies `count` elements, from element `begin` of row `row` on and, with short rows, of the rows after it,
// to or from dense memory.
void GatherBlock(const BlockLayout& layout, const Walk& walk, std::int64_t row, std::int64_t begin,
                 std::int64_t count, void* dense);
void ScatterBlock(const BlockLayout& layout, const Walk& walk, std::int64_t row, std::int64_t begin,
                  std::int64_t count, const void* dense);

}  // namespace ipu_model

#endif  // JAX_IPU_KERNELS_BLOCK_LAYOUT_H_
