// The k largest or smallest elements of each row.
#ifndef IPU_MODEL_KERNELS_SORT_TOP_K_H_
#define IPU_MODEL_KERNELS_SORT_TOP_K_H_

#include "kernels/host/context.h"
#include "kernels/host/host_tensor.h"

namespace ipu_model {

// Supports integers, pred, f16, bf16, f32 and f64.
bool TopKSupports(DType type);

// Along the last dimension: the k largest elements in the IEEE total order (+NaN above infinity, -NaN below),
// largest first; or the k smallest, smallest first. Among equal elements, the lower position comes first. The
// last extent of `values` and `indices` (s32) is k.
void TopK(HostContext& context, bool largest, const HostTensor& operand, const HostTensor& values,
          const HostTensor& indices);

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_SORT_TOP_K_H_
