// Index spaces of the kept and the reduced dimensions.
#ifndef IPU_MODEL_KERNELS_REDUCE_REDUCE_SPACE_H_
#define IPU_MODEL_KERNELS_REDUCE_REDUCE_SPACE_H_

#include <cstdint>

#include "kernels/elementwise/program/expression.h"
#include "kernels/host/host_tensor.h"

namespace ipu_model {

// Some dimensions of one or two tensors of one shape, in row-major order, merged where that keeps the order.
struct ReduceSpace {
  int rank = 0;
  std::int64_t count = 1;
  std::int64_t extent[kMaxRank];
  std::int64_t stride[2][kMaxRank];  // in elements

  ReduceSpace() = default;
  // Uses the dimensions with a bit in `mask`. `by_stride`: sorted with the largest stride outermost;
  // otherwise in their given order.
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

// Returns the scalar `value` in the shape of `like`, with strides of 0.
HostTensor BroadcastScalar(const HostTensor& value, const HostTensor& like);

// Returns the expression that converts its one input.
Expression Conversion(DType from, DType to);

// Where all of `count` tensors have equal results along a kept dimension, because they are broadcast along
// it, one is enough: `single` becomes the tensors with extent 1 there. Returns a bit for each such dimension
// of the results.
std::uint32_t RepeatedResults(const HostTensor* values, int count, std::uint32_t dimensions,
                              HostTensor* single);

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_REDUCE_REDUCE_SPACE_H_
