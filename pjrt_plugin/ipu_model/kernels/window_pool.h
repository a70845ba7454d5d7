// Pooling and cumulative operations with a single-operation combiner.
#ifndef JAX_IPU_KERNELS_WINDOW_POOL_H_
#define JAX_IPU_KERNELS_WINDOW_POOL_H_

#include "pjrt_plugin/ipu_model/kernels/context.h"
#include "pjrt_plugin/ipu_model/kernels/window.h"

namespace ipu_model {

// Whether the vector loops take this type.
bool PoolTakes(DType type);

// combiner: not kOther. init points to one element.
void Pool(HostContext& context, const WindowGeometry& geometry, WindowCombiner combiner, const HostTensor& in,
          const void* init, const HostTensor& out);

// out[i] = out[i - 1] op in[i] along `dimension`, or from the end.
void ScanAlong(HostContext& context, int dimension, bool backwards, WindowCombiner combiner,
               const HostTensor& in, const void* init, const HostTensor& out);

}  // namespace ipu_model

#endif  // JAX_IPU_KERNELS_WINDOW_POOL_H_
