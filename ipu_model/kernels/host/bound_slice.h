// What the calls of a bound dynamic slice do, for the code that runs in their place.
#ifndef IPU_MODEL_KERNELS_HOST_BOUND_SLICE_H_
#define IPU_MODEL_KERNELS_HOST_BOUND_SLICE_H_

#include <cstddef>
#include <cstdint>

#include "ipu_model/Types.hpp"

namespace ipu_model {

// MicroKind::kSliceStart: the result becomes the byte offset of one dimension's start, the integer of `type`
// that operand 0 is, clamped to [0, limit]. `more`: added to the offset of earlier dimensions. Operand 1 is
// this.
struct SliceStart {
  DType type;
  bool more;
  std::int64_t limit, bytes;
};

// MicroKind::kMoveFrom and kMoveTo: copies the `n` contiguous bytes of operand 0 to the result. Operand 1
// holds the bytes to add to the source address (kMoveFrom) or to the destination address (kMoveTo). Operand 2
// is this: the bytes of the tensor in which the source or the destination lies, from its address on.
struct SlicedBytes {
  std::ptrdiff_t begin, bytes;
};

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_HOST_BOUND_SLICE_H_
