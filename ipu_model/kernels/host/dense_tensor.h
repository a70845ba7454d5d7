// Views whose elements are consecutive, in row-major order.
#ifndef IPU_MODEL_KERNELS_HOST_DENSE_TENSOR_H_
#define IPU_MODEL_KERNELS_HOST_DENSE_TENSOR_H_

#include <cstdint>

#include "kernels/host/host_tensor.h"

namespace ipu_model {

// Sets the strides for the shape. Returns the number of elements.
inline std::int64_t SetDenseStrides(HostTensor* t) {
  std::int64_t stride = 1;
  for (int d = t->rank - 1; d >= 0; --d) {
    t->strides[d] = stride;
    stride *= t->shape[d];
  }
  return stride;
}

// A dense tensor at `data` with the type and the shape of `like`.
inline HostTensor DenseLike(const HostTensor& like, void* data) {
  HostTensor t = like;
  t.data = data;
  SetDenseStrides(&t);
  return t;
}

// Whether it is dense, whatever the strides of dimensions with one element. A tensor without elements is.
inline bool IsDense(const HostTensor& t) {
  std::int64_t stride = 1;
  bool dense = true;
  for (int d = t.rank - 1; d >= 0; --d) {
    if (t.shape[d] > 1 && t.strides[d] != stride) dense = false;
    stride *= t.shape[d];
  }
  return dense || stride == 0;
}

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_HOST_DENSE_TENSOR_H_
