// Values of a reduction as consecutive registers.
#ifndef IPU_MODEL_KERNELS_REDUCE_REDUCE_PACK_H_
#define IPU_MODEL_KERNELS_REDUCE_REDUCE_PACK_H_

#include <cstddef>
#include <cstdint>

#include "kernels/elementwise/program/micro_op.h"
#include "kernels/host/host_tensor.h"

namespace ipu_model {

// Copies n elements of `size` bytes, `stride` elements apart, to consecutive ones.
void Pack(void* to, const void* from, std::int64_t stride, std::int64_t n, std::size_t size);

// Returns the function that converts consecutive elements to registers; null if they are registers as stored.
MicroFunction LoadFunction(DType type);

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_REDUCE_REDUCE_PACK_H_
