// Small strided copies whose addresses are given when they are called.
#ifndef IPU_MODEL_KERNELS_COPY_BOUND_COPY_H_
#define IPU_MODEL_KERNELS_COPY_BOUND_COPY_H_

#include <cstdint>

#include "kernels/copy/permuted_copy.h"
#include "kernels/host/host_tensor.h"

namespace ipu_model {

// Smaller copies run on one thread: waking a worker would cost more than it saves.
inline constexpr std::int64_t kParallelBytes = 128 << 10;

inline bool IsSmall(const HostTensor& t) {
  return t.num_elements() > 0 &&
         t.num_elements() * static_cast<std::int64_t>(SizeOf(t.type)) < kParallelBytes;
}

// A copy in canonical form: unit dimensions dropped, dimensions ordered by destination stride, neighbours
// merged. Strides are in bytes.
struct CopyLoop {
  int rank = 0;
  std::int64_t shape[kMaxRank], src[kMaxRank], dst[kMaxRank];
  std::int64_t total = 1;
};

inline bool IsContiguous(const CopyLoop& loop, std::int64_t size) {
  return loop.rank == 0 || (loop.rank == 1 && loop.src[0] == size && loop.dst[0] == size);
}

// The arguments of a bound copy, other than the addresses.
struct BoundCopy {
  CopyLoop loop;
  void (*copy)(const BoundCopy& bound, const char* src, char* dst) = nullptr;
  PermutedCopy permuted;  // instead of the loop, if it has steps
};

// Binds a copy of the extents `shape`.
BoundCopy BindCopy(const std::int64_t* shape, const HostTensor& src, const HostTensor& dst);

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_COPY_BOUND_COPY_H_
