// Gather: windows of an operand at the places that index vectors name.
#ifndef JAX_IPU_KERNELS_GATHER_H_
#define JAX_IPU_KERNELS_GATHER_H_

#include "pjrt_plugin/ipu_model/kernels/context.h"
#include "pjrt_plugin/ipu_model/kernels/host_tensor.h"
#include "pjrt_plugin/ipu_model/kernels/indexed_window.h"

namespace ipu_model {

// StableHLO gather, starts clamped; any element type and strides. For a clipped placement, elements whose
// source is outside this call's part of the operand are left as they are.
void Gather(HostContext& context, const IndexedWindow& window, const WindowPlacement& placement,
            const HostTensor& operand, const HostTensor& indices, const HostTensor& out);

}  // namespace ipu_model

#endif  // JAX_IPU_KERNELS_GATHER_H_
