// Constant and counting fills.
#ifndef IPU_MODEL_KERNELS_ELEMENTWISE_FILL_H_
#define IPU_MODEL_KERNELS_ELEMENTWISE_FILL_H_

#include <cstdint>

#include "kernels/host/context.h"
#include "kernels/host/host_tensor.h"

namespace ipu_model {

// `value`: one element of out's type.
void Fill(HostContext& context, const void* value, const HostTensor& out);

// out[..., i, ...] = start + i along `dimension`, converted to out's type as StableHLO's convert does from
// s64.
void Iota(HostContext& context, std::int64_t start, int dimension, const HostTensor& out);

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_ELEMENTWISE_FILL_H_
