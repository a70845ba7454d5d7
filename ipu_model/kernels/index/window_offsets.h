// The inner loop of indexing, compiled for each instruction set.
#ifndef IPU_MODEL_KERNELS_INDEX_WINDOW_OFFSETS_H_
#define IPU_MODEL_KERNELS_INDEX_WINDOW_OFFSETS_H_

#include <cstdint>

#include "ipu_model/Types.hpp"

namespace ipu_model {

// offset[i] += operand_stride * the index at `index` + i * stride (elements), for i in [0, n). `wrap` is
// added to a negative index; then it is clamped to [0, limit]; or (clamp == false) offset[i] becomes
// WindowRows::kSkip when it is outside, and stays kSkip when it was. Throws std::invalid_argument for types
// that are no indices. And offset[i] = base + i * step.
#define JAX_IPU_DECLARE_WINDOW_OFFSETS                                                              \
  void AddComponent(DType type, const char* index, std::int64_t stride, std::int64_t n, bool clamp, \
                    std::int64_t wrap, std::int64_t limit, std::int64_t operand_stride,             \
                    std::int64_t* offset);                                                          \
  void FillProgression(std::int64_t base, std::int64_t step, std::int64_t n, std::int64_t* offset);
namespace avx2 {
JAX_IPU_DECLARE_WINDOW_OFFSETS
}
namespace avx512 {
JAX_IPU_DECLARE_WINDOW_OFFSETS
}
#undef JAX_IPU_DECLARE_WINDOW_OFFSETS

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_INDEX_WINDOW_OFFSETS_H_
