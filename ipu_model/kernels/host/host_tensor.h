// A strided view of host memory: the operand type of every kernel.
#ifndef IPU_MODEL_KERNELS_HOST_HOST_TENSOR_H_
#define IPU_MODEL_KERNELS_HOST_HOST_TENSOR_H_

#include <cstdint>

#include "ipu_model/Types.hpp"

namespace ipu_model {

// `strides` are in elements; 0 repeats (broadcast), negative reverses. Does not own anything.
struct HostTensor {
  void* data = nullptr;
  DType type = DType::kF32;
  int rank = 0;
  std::int64_t shape[kMaxRank] = {};
  std::int64_t strides[kMaxRank] = {};

  std::int64_t num_elements() const {
    std::int64_t n = 1;
    for (int d = 0; d < rank; ++d) n *= shape[d];
    return n;
  }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_HOST_HOST_TENSOR_H_
