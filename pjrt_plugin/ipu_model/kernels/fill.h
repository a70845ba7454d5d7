// Constant and counting fills.
#ifndef JAX_IPU_KERNELS_FILL_H_
#define JAX_IPU_KERNELS_FILL_H_

#include <cstdint>

#include "pjrt_plugin/ipu_model/kernels/context.h"
#include "pjrt_plugin/ipu_model/kernels/host_tensor.h"

namespace ipu_model {

// `value`: one element of out's type.
void Fill(HostContext& context, const void* value, const HostTensor& out);

// out[..., i, ...] = start + i along `dimension`, converted to out's type as StableHLO's convert does from
// s64.
void Iota(HostContext& context, std::int64_t start, int dimension, const HostTensor& out);

}  // namespace ipu_model

#endif  // JAX_IPU_KERNELS_FILL_H_
