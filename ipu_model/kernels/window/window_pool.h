// Pooling and cumulative operations with a single-operation combiner.
#ifndef IPU_MODEL_KERNELS_WINDOW_WINDOW_POOL_H_
#define IPU_MODEL_KERNELS_WINDOW_WINDOW_POOL_H_

#include "kernels/host/context.h"
#include "kernels/window/window.h"

namespace ipu_model {

// Whether the vector loops support this type.
bool PoolTakes(DType type);

// combiner: not kOther. init points to one element.
void Pool(HostContext& context, const WindowGeometry& geometry, WindowCombiner combiner, const HostTensor& in,
          const void* init, const HostTensor& out);

// out[i] = out[i - 1] op in[i] along `dimension`, or from the end if `backwards`.
void ScanAlong(HostContext& context, int dimension, bool backwards, WindowCombiner combiner,
               const HostTensor& in, const void* init, const HostTensor& out);

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_WINDOW_WINDOW_POOL_H_
