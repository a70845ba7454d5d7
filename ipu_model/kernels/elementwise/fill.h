// Fills tensors with a constant or with consecutive numbers.
#ifndef IPU_MODEL_KERNELS_ELEMENTWISE_FILL_H_
#define IPU_MODEL_KERNELS_ELEMENTWISE_FILL_H_

#include <cstdint>

#include "kernels/host/context.h"
#include "kernels/host/host_tensor.h"

namespace ipu_model {

// Fills `out` with the element at `value`, which has out's type.
void Fill(HostContext& context, const void* value, const HostTensor& out);

// out[..., i, ...] = start + i along `dimension`, converted from s64 to out's type as StableHLO's convert
// does.
void Iota(HostContext& context, std::int64_t start, int dimension, const HostTensor& out);

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_ELEMENTWISE_FILL_H_
