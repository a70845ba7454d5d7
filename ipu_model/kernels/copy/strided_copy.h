// Strided n-dimensional copies.
#ifndef IPU_MODEL_KERNELS_COPY_STRIDED_COPY_H_
#define IPU_MODEL_KERNELS_COPY_STRIDED_COPY_H_

#include <cstddef>
#include <cstdint>

#include "kernels/host/bound_kernel.h"
#include "kernels/host/context.h"
#include "kernels/host/host_tensor.h"

namespace ipu_model {

// dst[i...] = src[i...]. Strides are in elements of `element_size` bytes. A destination stride must not be 0
// where the extent is above 1. Source and destination must not overlap. A null `pool` means one thread.
void CopyStrided(ThreadPool* pool, int rank, const std::int64_t* shape, const void* src,
                 const std::int64_t* src_strides, void* dst, const std::int64_t* dst_strides,
                 std::size_t element_size);

// Copies `src` to `dst`: same shape and type. Does nothing if both are the same view.
void CopyTensor(HostContext& context, const HostTensor& src, const HostTensor& dst);

// Adds the same copy to `list`. Returns false and adds nothing if the tensor is large enough for several
// threads.
bool AddCopy(CallList* list, const HostTensor& src, const CallList::Place& from, const HostTensor& dst,
             const CallList::Place& to);

// Returns a view of the part of `tensor` that starts at `begin` and has the extents `shape`.
HostTensor SubTensor(const HostTensor& tensor, const std::int64_t* begin, const std::int64_t* shape);

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_COPY_STRIDED_COPY_H_
