// How a reduction that has inner loops of its own is cut into work items.
#ifndef IPU_MODEL_KERNELS_REDUCE_REDUCE_PLAN_H_
#define IPU_MODEL_KERNELS_REDUCE_REDUCE_PLAN_H_

#include <cstdint>

#include "kernels/host/host_tensor.h"
#include "kernels/reduce/reduce_space.h"

namespace ipu_model {

struct ReducePlan {
  // Elements of a row that are summed at once, results that are accumulated at once, and rows after which
  // float sums of results are put aside: all bound the length of any one chain of additions.
  static constexpr std::int64_t kRowPiece = 4096, kLaneChunk = 1024, kRowsBeforeFlush = 512;

  ReduceSpace kept, reduced;
  bool rows = false;    // items are single results, each a run along the innermost reduced dimension
  bool folded = false;  // few lanes: several rows side by side
  int lane = 0;         // kept dimension that the lanes run along
  std::int64_t lanes = 1, chunks = 1;  // of one lane run
  std::int64_t items = 1, segments = 1;
  std::int64_t length = 1, pieces = 1, units = 1;  // innermost reduced run, its pieces, all pieces or rows
};

// Over the dimensions with a bit in `dimensions`, for `count` tensors of one shape. `may_fold`: the operation
// may combine several rows side by side first.
ReducePlan MakeReducePlan(const HostTensor* values, int count, std::uint32_t dimensions, bool may_fold);

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_REDUCE_REDUCE_PLAN_H_
