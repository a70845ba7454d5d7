// Gather: copies the windows of an operand that index vectors select.
#ifndef IPU_MODEL_KERNELS_INDEX_GATHER_H_
#define IPU_MODEL_KERNELS_INDEX_GATHER_H_

#include "kernels/host/context.h"
#include "kernels/host/host_tensor.h"
#include "kernels/index/indexed_window.h"

namespace ipu_model {

// StableHLO gather with clamped starts, for any element type and strides. With a clipped placement, elements
// whose source is outside this call's part of the operand are left unchanged.
void Gather(HostContext& context, const IndexedWindow& window, const WindowPlacement& placement,
            const HostTensor& operand, const HostTensor& indices, const HostTensor& out);

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_INDEX_GATHER_H_
