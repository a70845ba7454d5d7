// Gathers along an inner dimension: x[:, i] and x[:, i, :].
#ifndef IPU_MODEL_KERNELS_INDEX_GATHER_INNER_H_
#define IPU_MODEL_KERNELS_INDEX_GATHER_INNER_H_

#include "kernels/host/context.h"
#include "kernels/index/indexed_window.h"

namespace ipu_model {

// Gathers row by row of the result, if one index selects along a dimension that is inside of another
// dimension of the windows, in the operand and in the result: window by window each row would be read and
// written once for every index. Returns false, and does nothing, for other gathers.
bool GatherInner(HostContext& context, const WindowRows& rows, const WindowRows::Loop& loop,
                 const HostTensor& operand, const HostTensor& out);

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_INDEX_GATHER_INNER_H_
