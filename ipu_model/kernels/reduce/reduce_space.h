// Helpers of the reduction kernel: kept and reduced dimensions as index spaces.
#ifndef IPU_MODEL_KERNELS_REDUCE_REDUCE_SPACE_H_
#define IPU_MODEL_KERNELS_REDUCE_REDUCE_SPACE_H_

#include <cstdint>

#include "kernels/elementwise/expression.h"
#include "kernels/host/host_tensor.h"

namespace ipu_model {

// Some dimensions of one or two tensors of one shape, row-major, merged where that keeps the order.
struct ReduceSpace {
  int rank = 0;
  std::int64_t count = 1;
  std::int64_t extent[kMaxRank];
  std::int64_t stride[2][kMaxRank];  // elements

  ReduceSpace() = default;
  // The dimensions with a bit in `mask`. `by_stride`: the largest stride outermost, else as they come.
  ReduceSpace(const HostTensor* tensors, int num_tensors, std::uint32_t mask, bool by_stride);

  std::int64_t Offset(int tensor, std::int64_t index) const {
    std::int64_t offset = 0;
    for (int d = rank - 1; d > 0; --d) {
      offset += index % extent[d] * stride[tensor][d];
      index /= extent[d];
    }
    return rank > 0 ? offset + index * stride[tensor][0] : 0;
  }
};

// The scalar `value` with the shape of `like` and strides of 0.
HostTensor BroadcastScalar(const HostTensor& value, const HostTensor& like);

// One input, converted.
Expression Conversion(DType from, DType to);

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_REDUCE_REDUCE_SPACE_H_
