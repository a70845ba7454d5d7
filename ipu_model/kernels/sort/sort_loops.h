// The inner loops of sorting, compiled per instruction set.
#ifndef IPU_MODEL_KERNELS_SORT_SORT_LOOPS_H_
#define IPU_MODEL_KERNELS_SORT_SORT_LOOPS_H_

#include <cstdint>

#include "kernels/host/context.h"

namespace ipu_model {

// How the bits of an element are encoded as an unsigned key of the same order.
struct KeyCode {
  int bytes = 4;
  bool is_float = false;
  std::uint64_t flip = 0;  // all ones for descending order
  std::uint64_t sign = 0;  // the sign bit of signed integers
  int unused = 0;          // upper bits of an integer that say nothing
  // Floats: magnitudes below `smallest` become +0, above `largest` become `nan`.
  std::uint64_t smallest = 0, largest = 0, nan = 0;
};

#define JAX_IPU_DECLARE_SORT_LOOPS                                                                          \
  bool EncodeKeys(const KeyCode& code, const void* data, std::int64_t stride, std::int64_t n,               \
                  std::uint32_t* keys);                                                                     \
  bool EncodeKeys(const KeyCode& code, const void* data, std::int64_t stride, std::int64_t n,               \
                  std::uint64_t* keys);                                                                     \
  void DecodeKeys(const KeyCode& code, const std::uint32_t* keys, std::int64_t n, void* data);              \
  void DecodeKeys(const KeyCode& code, const std::uint64_t* keys, std::int64_t n, void* data);              \
  std::uint32_t LargestKey(const std::uint32_t* keys, std::int64_t n);                                      \
  std::uint64_t LargestKey(const std::uint64_t* keys, std::int64_t n);                                      \
  std::uint32_t* RadixSort(ThreadPool* pool, std::uint32_t* records, std::uint32_t* buffer, std::int64_t n, \
                           int low, int high);                                                              \
  std::uint64_t* RadixSort(ThreadPool* pool, std::uint64_t* records, std::uint64_t* buffer, std::int64_t n, \
                           int low, int high);

namespace avx2 {
JAX_IPU_DECLARE_SORT_LOOPS
}
namespace avx512 {
JAX_IPU_DECLARE_SORT_LOOPS
}
#undef JAX_IPU_DECLARE_SORT_LOOPS

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_SORT_SORT_LOOPS_H_
