// Views whose elements are consecutive, in row-major order.
#ifndef IPU_MODEL_KERNELS_HOST_DENSE_TENSOR_H_
#define IPU_MODEL_KERNELS_HOST_DENSE_TENSOR_H_

#include <cstdint>

#include "kernels/host/host_tensor.h"

namespace ipu_model {

// Writes the strides for a shape; that of the last dimension is `stride`. Returns `stride` times the number
// of elements.
inline std::int64_t SetDenseStrides(int rank, const std::int64_t* shape, std::int64_t* strides,
                                    std::int64_t stride = 1) {
  for (int d = rank - 1; d >= 0; --d) {
    strides[d] = stride;
    stride *= shape[d];
  }
  return stride;
}

// The same for the shape of a tensor. Returns the number of elements.
inline std::int64_t SetDenseStrides(HostTensor* t) { return SetDenseStrides(t->rank, t->shape, t->strides); }

// The same with the dimensions in the order `order` in memory, the outermost first.
inline std::int64_t SetDenseStrides(HostTensor* t, const int* order) {
  std::int64_t stride = 1;
  for (int i = t->rank - 1; i >= 0; --i) {
    t->strides[order[i]] = stride;
    stride *= t->shape[order[i]];
  }
  return stride;
}

// The n elements at `data`.
inline HostTensor DenseVector(DType type, std::int64_t n, void* data) {
  HostTensor t;
  t.data = data;
  t.type = type;
  t.rank = 1;
  t.shape[0] = n;
  t.strides[0] = 1;
  return t;
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
