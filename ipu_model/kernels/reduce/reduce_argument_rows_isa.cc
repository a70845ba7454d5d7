// The best value and its index of many short rows: a vector of rows at a time.
#include <algorithm>
#include <cstdint>

#include "kernels/reduce/reduce_functions.h"
#include "kernels/vector/register_transpose.h"

namespace ipu_model::ISA_NAMESPACE {
namespace {

template <typename T, bool kLargest>
std::int64_t ArgumentRows(const void* values, std::int64_t row_stride, const void* indices,
                          std::int64_t index_stride, std::int64_t rows, std::int64_t n, void* best_values,
                          void* best_indices) {
  using V = typename VectorTypes<T>::Register;
  using I = typename VectorTypes<std::int32_t>::Register;
  constexpr int kN = kLanes<T>;
  const T* const v = static_cast<const T*>(values);
  const auto* const x = static_cast<const std::int32_t*>(indices);
  std::int64_t row = 0;
  for (; row + kN <= rows; row += kN) {
    V best{};
    I at{};
    for (std::int64_t i = 0; i < n; i += kN) {
      const int columns = static_cast<int>(std::min<std::int64_t>(n - i, kN));
      const LaneMask<T> mask(columns);
      V column[kN];
#pragma GCC unroll 16
      for (int r = 0; r < kN; ++r) column[r] = mask.Load(v + (row + r) * row_stride + i);
      Transpose<T>(column);
#pragma GCC unroll 16
      for (int c = 0; c < kN; ++c) {
        if (c >= columns) break;
        const V value = column[c];
        const I index = I{} + x[(i + c) * index_stride];
        if (i + c == 0) {
          best = value;
          at = index;
          continue;
        }
        const I better = (kLargest ? best > value : best < value) | (best != best);
        const I keep = better | ((best == value) & (at < index));
        best = keep ? best : value;
        at = keep ? at : index;
      }
    }
    *reinterpret_cast<typename VectorTypes<T>::Memory*>(static_cast<T*>(best_values) + row) = best;
    *reinterpret_cast<typename VectorTypes<std::int32_t>::Memory*>(static_cast<std::int32_t*>(best_indices) +
                                                                   row) = at;
  }
  return row;
}

}  // namespace

void FindArgumentRows(bool largest, RegisterType value, RegisterType index, ArgumentFunctions* functions) {
  if (index != RegisterType::kS32) return;
  if (value == RegisterType::kF32) {
    functions->short_rows = largest ? ArgumentRows<float, true> : ArgumentRows<float, false>;
  } else if (value == RegisterType::kS32) {
    functions->short_rows = largest ? ArgumentRows<std::int32_t, true> : ArgumentRows<std::int32_t, false>;
  }
}

}  // namespace ipu_model::ISA_NAMESPACE
