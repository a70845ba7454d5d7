// Tensors of the host with the shape of a view, without memory yet.
#ifndef IPU_MODEL_ENGINE_FAST_PACKED_TENSOR_H_
#define IPU_MODEL_ENGINE_FAST_PACKED_TENSOR_H_

#include <cstddef>

#include "core/mapping/strides.h"
#include "kernels/host/host_tensor.h"

namespace ipu_model {

inline HostTensor Shaped(const View& view) {
  HostTensor t;
  t.type = view.type;
  t.rank = static_cast<int>(view.shape.size());
  for (int d = 0; d < t.rank; ++d) {
    t.shape[d] = view.shape[static_cast<std::size_t>(d)];
    t.strides[d] = view.strides[static_cast<std::size_t>(d)];
  }
  return t;
}

// Returns a dense row-major tensor of the same shape.
inline HostTensor Packed(const View& view) {
  View dense = view;
  dense.strides = RowMajorStrides(view.shape);
  return Shaped(dense);
}

}  // namespace ipu_model

#endif  // IPU_MODEL_ENGINE_FAST_PACKED_TENSOR_H_
