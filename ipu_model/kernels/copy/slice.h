// Dynamic slices.
#ifndef IPU_MODEL_KERNELS_COPY_SLICE_H_
#define IPU_MODEL_KERNELS_COPY_SLICE_H_

#include <cstdint>
#include <memory>

#include "kernels/host/bound_kernel.h"
#include "kernels/host/context.h"
#include "kernels/host/host_tensor.h"

namespace ipu_model {

// Returns the integer at `data`; unsigned 64-bit values above the signed range saturate.
std::int64_t ReadIndex(DType type, const void* data);

// out = operand[start : start + out.shape], each start clamped so that the slice is inside. `starts` are
// scalars of any integer type, one per dimension.
void DynamicSlice(HostContext& context, const HostTensor& operand, const HostTensor* starts,
                  const HostTensor& out);

// out = operand with `update` written at the clamped start. `out` may be exactly `operand`.
void DynamicUpdateSlice(HostContext& context, const HostTensor& operand, const HostTensor& update,
                        const HostTensor* starts, const HostTensor& out);

// Binds either of the two for small slices; returns null for large ones. `in` holds the arguments above, in
// their order. `in_place`: `out` is exactly the operand, whatever their addresses will be.
std::unique_ptr<BoundKernel> BindDynamicSlice(const HostTensor* in, const HostTensor& out);
std::unique_ptr<BoundKernel> BindDynamicUpdateSlice(const HostTensor* in, const HostTensor& out,
                                                    bool in_place = false);

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_COPY_SLICE_H_
