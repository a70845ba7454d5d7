// The inner loops of scatter: combine windows of updates into windows of an operand.
#ifndef IPU_MODEL_KERNELS_INDEX_COMBINE_WINDOWS_H_
#define IPU_MODEL_KERNELS_INDEX_COMBINE_WINDOWS_H_

#include <cstdint>

#include "ipu_model/Types.hpp"
#include "kernels/index/indexed_window.h"

namespace ipu_model {

// How an element of the operand and one of the updates become the new element; kGeneral: by an expression.
enum class Combine : std::uint8_t { kGeneral, kSet, kAdd, kMultiply, kMinimum, kMaximum, kAnd, kOr };

// Windows in the order in which they are applied. Window i is at to[i] in the operand and at from[i] in the
// updates, in elements.
struct WindowList {
  const std::int64_t* to;
  const std::int64_t* from;
  std::int64_t count;
};

// Integer sums and products wrap; minima and maxima are NaN if an operand is, and order -0 below +0; f16 and
// bf16 are combined in f32 and rounded after each update. CombineWindows: all elements of every window.
// CombineElements: rows [begin, end) of single elements, of which the indices are s32 or s64.
// CombineSelected: of n rows with dense s32 indices (WindowRows::AreIndexed), those with an index in [first,
// end).
#define JAX_IPU_DECLARE_COMBINE_WINDOWS                                                                  \
  void CombineWindows(Combine combine, DType type, const WindowRows::Loop& loop, const WindowList& list, \
                      const void* updates, void* out);                                                   \
  void CombineElements(Combine combine, DType type, const WindowRows::Elements& elements,                \
                       std::int64_t begin, std::int64_t end, const void* updates, void* out);            \
  void CombineSelected(Combine combine, DType type, const WindowRows::Loop& loop,                        \
                       const WindowRows::Elements& rows, std::int64_t n, std::int64_t first,             \
                       std::int64_t end, const void* updates, void* out);
namespace avx2 {
JAX_IPU_DECLARE_COMBINE_WINDOWS
}
namespace avx512 {
JAX_IPU_DECLARE_COMBINE_WINDOWS
}
#undef JAX_IPU_DECLARE_COMBINE_WINDOWS

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_INDEX_COMBINE_WINDOWS_H_
