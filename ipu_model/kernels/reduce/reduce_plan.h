// Divides a reduction with specialised inner loops into work items.
#ifndef IPU_MODEL_KERNELS_REDUCE_REDUCE_PLAN_H_
#define IPU_MODEL_KERNELS_REDUCE_REDUCE_PLAN_H_

#include <cstddef>
#include <cstdint>

#include "kernels/host/host_tensor.h"
#include "kernels/reduce/reduce_functions.h"
#include "kernels/reduce/reduce_space.h"

namespace ipu_model {

struct ReducePlan {
  // Elements of a row that are summed at once, results that are accumulated at once, and rows after which
  // float sums are put aside. All three limit the length of a chain of additions.
  static constexpr std::int64_t kRowPiece = 4096, kLaneChunk = 1024, kRowsBeforeFlush = 512;

  ReduceSpace kept, reduced;
  bool rows = false;    // each item is one result, reduced along the innermost reduced dimension
  bool folded = false;  // few lanes: several rows are accumulated side by side
  int lane = 0;         // the kept dimension along which the lanes run
  std::int64_t lanes = 1, chunks = 1;  // lanes side by side, and the chunks they are cut into
  std::int64_t items = 1, segments = 1;
  std::int64_t length = 1, pieces = 1, units = 1;  // of the innermost reduced dimension; all pieces or rows

  // Whether each result is a row of few consecutive elements of `size` bytes, all at one stride. They are
  // then combined in their order, whatever the rest of the plan says.
  bool short_rows(std::size_t size) const {
    return reduced.rank == 1 && reduced.stride[0][0] == 1 && kept.rank == 1 && !folded &&
           length < ShortRowElements(size);
  }
  // Whether each result is one piece of consecutive elements, all at one stride.
  bool many_rows() const {
    return rows && units == 1 && segments == 1 && reduced.rank == 1 && reduced.stride[0][0] == 1 &&
           kept.rank == 1;
  }
};

// Returns the plan for `count` tensors of one shape and the reduced dimensions with a bit in `dimensions`.
// `may_fold`: whether the operation may first combine several rows side by side.
ReducePlan MakeReducePlan(const HostTensor* values, int count, std::uint32_t dimensions, bool may_fold);

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_REDUCE_REDUCE_PLAN_H_
