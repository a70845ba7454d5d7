// The inner loops of the window kernels, compiled per instruction set.
#ifndef IPU_MODEL_KERNELS_WINDOW_WINDOW_STRIP_H_
#define IPU_MODEL_KERNELS_WINDOW_WINDOW_STRIP_H_

#include <cstdint>

#include "kernels/elementwise/program/expression.h"
#include "kernels/window/window.h"

namespace ipu_model {

// c[r, j] = init op a[r, offsets[0] + j] op a[r, offsets[1] + j] ..., for r < rows and j < columns. Steps are
// in elements. Loops are vectorised if both column steps are 1.
template <typename T>
struct WindowStrip {
  const T* a;
  std::int64_t a_row, a_column;
  const std::int64_t* offsets;
  std::int64_t num_offsets;
  T* c;
  std::int64_t c_row, c_column;
  std::int64_t rows, columns;
  T init;
};

// c[i, j] = c[i - 1, j] op a[i, j], with c[-1, j] = init. Negative steps scan backwards.
template <typename T>
struct ScanStrip {
  const T* a;
  std::int64_t a_step, a_column;
  T* c;
  std::int64_t c_step, c_column;
  std::int64_t steps, columns;
  T init;
};

// For each of `columns` adjacent windows: selects one of `taps` elements, then result[tap] += source. Element
// j of every pointer belongs to window j; the offsets are those of the taps in operand and result. If no two
// windows share an element (disjoint), writes all of the window's results, starting from `init`.
template <typename T>
struct SelectStrip {
  const T* operand;
  const T* source;
  T* result;
  const std::int64_t* operand_offsets;
  const std::int64_t* result_offsets;
  std::int64_t taps;
  std::int64_t columns;
  ScalarOp comparison;  // kGe, kGt, kLe or kLt
  bool disjoint;
  T init;
};

template <typename T>
struct WindowFunctions {
  void (*reduce)(const WindowStrip<T>&) = nullptr;
  void (*scan)(const ScanStrip<T>&) = nullptr;
  // a and c are contiguous. Returns the last value. Backwards: from the last element to the first.
  T (*scan_row)(const T* a, T* c, std::int64_t n, T init, bool backwards) = nullptr;
  T identity{};
};

// T: float, double, std::int32_t, std::uint32_t, std::int64_t or std::uint64_t. combiner: not kOther.
namespace avx2 {
template <typename T>
WindowFunctions<T> GetWindowFunctions(WindowCombiner combiner);
template <typename T>
void SelectAndAdd(const SelectStrip<T>& strip);
}  // namespace avx2
namespace avx512 {
template <typename T>
WindowFunctions<T> GetWindowFunctions(WindowCombiner combiner);
template <typename T>
void SelectAndAdd(const SelectStrip<T>& strip);
}  // namespace avx512

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_WINDOW_WINDOW_STRIP_H_
