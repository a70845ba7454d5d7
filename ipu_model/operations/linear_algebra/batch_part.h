// Parts of a batch of vectors or matrices on the host.
#ifndef IPU_MODEL_OPERATIONS_LINEAR_ALGEBRA_BATCH_PART_H_
#define IPU_MODEL_OPERATIONS_LINEAR_ALGEBRA_BATCH_PART_H_

#include "kernels/host/host_tensor.h"

namespace ipu_model {

// Returns matrix (or vector) number `index` of a batch: the last `kept` dimensions.
inline HostTensor BatchPart(const HostTensor& t, int kept, std::int64_t index) {
  std::int64_t offset = 0;
  for (int d = t.rank - 1 - kept; d >= 0; --d) {
    offset += index % t.shape[d] * t.strides[d];
    index /= t.shape[d];
  }
  HostTensor part;
  part.data = t.as<char>() + offset * static_cast<std::int64_t>(SizeOf(t.type));
  part.type = t.type;
  part.rank = kept;
  for (int d = 0; d < kept; ++d) {
    part.shape[d] = t.shape[t.rank - kept + d];
    part.strides[d] = t.strides[t.rank - kept + d];
  }
  return part;
}

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_LINEAR_ALGEBRA_BATCH_PART_H_
