// Gather: windows of an operand at the places that index vectors name.
#ifndef IPU_MODEL_KERNELS_INDEX_GATHER_H_
#define IPU_MODEL_KERNELS_INDEX_GATHER_H_

#include "kernels/host/context.h"
#include "kernels/host/host_tensor.h"
#include "kernels/index/indexed_window.h"

namespace ipu_model {

// StableHLO gather, starts clamped; any element type and strides. For a clipped placement, elements whose
// source is outside this call's part of the operand are left as they are.
void Gather(HostContext& context, const IndexedWindow& window, const WindowPlacement& placement,
            const HostTensor& operand, const HostTensor& indices, const HostTensor& out);

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_INDEX_GATHER_H_
