// Dispatches the radix sort to this machine's instruction set.
#include "kernels/sort/radix_sort.h"

#include "kernels/host/isa.h"
#include "kernels/sort/sort_loops.h"

namespace ipu_model {

template <typename R>
R* RadixSort(ThreadPool* pool, R* records, R* buffer, std::int64_t n, int low, int high) {
  return JAX_IPU_FOR_ISA(RadixSort(pool, records, buffer, n, low, high));
}

template std::uint32_t* RadixSort(ThreadPool*, std::uint32_t*, std::uint32_t*, std::int64_t, int, int);
template std::uint64_t* RadixSort(ThreadPool*, std::uint64_t*, std::uint64_t*, std::int64_t, int, int);

}  // namespace ipu_model
