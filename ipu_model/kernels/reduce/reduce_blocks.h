// Reductions with specialised inner loops, in the work items of their plan.
#ifndef IPU_MODEL_KERNELS_REDUCE_REDUCE_BLOCKS_H_
#define IPU_MODEL_KERNELS_REDUCE_REDUCE_BLOCKS_H_

#include <cstddef>
#include <cstdint>

#include "kernels/elementwise/program/micro_op.h"
#include "kernels/host/context.h"
#include "kernels/host/host_tensor.h"
#include "kernels/reduce/reduce_functions.h"
#include "kernels/reduce/reduce_plan.h"

namespace ipu_model {

// The inner loops: those of `op`, or of the best value with its index if `argument` is given.
struct ReduceLoops {
  ReduceOp op = ReduceOp::kAdd;
  const ReduceFunctions* single = nullptr;
  const ArgumentFunctions* argument = nullptr;
};

// One run over one tensor, or over values and indices. There must be elements to reduce.
class BlockReduction {
 public:
  BlockReduction(HostContext& context, const ReduceLoops& loops, const HostTensor* values,
                 std::uint32_t dimensions);
  // Writes the results, dense and of register types, to totals[0] and, with indices, totals[1].
  void Run(void* const* totals);

 private:
  static constexpr std::size_t kBuffer = ReducePlan::kRowPiece * 8;  // bytes; each worker has four buffers

  // The units [first, last) of one result, or of one chunk of lanes, and the segment that they belong to.
  struct Item {
    std::int64_t index, segment, first, last;
  };
  struct LaneState;

  void RunShortRows();
  void RunArgumentRows();
  void RunRows();
  void RunItems(unsigned char* buffer, std::int64_t begin, std::int64_t end);
  void RowItem(const Item& item, unsigned char* buffer);
  // As RowItem, for consecutive elements in rows that are one piece each: several rows at a time.
  void ManyRowsItem(const Item& item, unsigned char* buffer);
  void ArgumentRowItem(const Item& item, unsigned char* buffer);
  void FoldedItem(const Item& item, unsigned char* buffer);
  void LaneItem(const Item& item, unsigned char* buffer);
  std::int64_t AddLaneRows(const Item& item, std::int64_t unit, std::int64_t offset, LaneState* state,
                           unsigned char* buffer);
  void ArgumentLaneItem(const Item& item, unsigned char* buffer);
  void StoreLanes(const Item& item, const LaneState& state, const unsigned char* values,
                  const unsigned char* index);

  // A chunk of lanes: its first result, its lanes, and what has been accumulated.
  struct LaneState {
    std::int64_t result = 0, lanes = 0;
    unsigned char *best = nullptr, *sum = nullptr;  // `sum` holds the float sums that are put aside
    bool have_best = false, have_sum = false;
  };
  LaneState StateOf(const Item& item, unsigned char* buffer) const;

  // A piece of a row: its elements, and the offset of the first in tensor i.
  struct Piece {
    std::int64_t row, begin, elements;
  };
  Piece PieceOf(std::int64_t unit) const;
  std::int64_t OffsetOf(int i, const Piece& piece, std::int64_t result) const;
  std::int64_t RowStride(int i) const { return inner_ >= 0 ? plan_.reduced.stride[i][inner_] : 1; }

  const unsigned char* Base(int i, std::int64_t offset) const {
    return static_cast<const unsigned char*>(values_[i].data) +
           offset * static_cast<std::int64_t>(i == 0 ? element_ : index_size_);
  }
  // Returns n values from `offset` on as consecutive registers: in place, or copied to the buffer.
  const unsigned char* Consecutive(std::int64_t offset, std::int64_t stride, std::int64_t n,
                                   unsigned char* buffer) const;
  // The same for rows of n values, one after the other.
  const unsigned char* ConsecutiveRows(std::int64_t offset, std::int64_t rows, std::int64_t n,
                                       unsigned char* buffer) const;
  unsigned char* Total(int i, std::int64_t segment, std::int64_t result) const;

  HostContext& context_;
  const ReduceLoops loops_;
  const HostTensor* const values_;
  const ReducePlan plan_;
  const MicroFunction load_;
  const std::size_t element_, size_, index_size_;  // bytes: as stored, as a register, an index
  const bool float_sum_;
  const int inner_;
  const std::int64_t lane_stride_;
  std::int64_t result_stride_ = 1;  // between lanes in the dense results
  unsigned char* totals_[2] = {};
  unsigned char* more_[2] = {};  // the totals of all segments after the first
};

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_REDUCE_REDUCE_BLOCKS_H_
