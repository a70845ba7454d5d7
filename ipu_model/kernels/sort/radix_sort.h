// Stable least-significant-digit radix sort of unsigned records.
#ifndef IPU_MODEL_KERNELS_SORT_RADIX_SORT_H_
#define IPU_MODEL_KERNELS_SORT_RADIX_SORT_H_

#include <cstdint>

#include "kernels/host/context.h"

namespace ipu_model {

// Sorts by the bits [low, high); the bits from `high` on must be 0. Overwrites both arrays and returns the
// one that holds the result. `pool` may be null (one thread). R is uint32_t or uint64_t.
template <typename R>
R* RadixSort(ThreadPool* pool, R* records, R* buffer, std::int64_t n, int low, int high);

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_SORT_RADIX_SORT_H_
