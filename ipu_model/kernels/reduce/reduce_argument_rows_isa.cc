// The best value and its index of many short rows, a vector of rows at a time, or of a few rows, a vector of
// columns at a time.
#include <algorithm>
#include <cstdint>

#include "kernels/product/gemm_tile.h"
#include "kernels/reduce/reduce_functions.h"
#include "kernels/vector/register_transpose.h"

namespace ipu_model::ISA_NAMESPACE {
namespace {

template <bool kLargest, typename V, typename I>
[[gnu::always_inline]] inline void KeepBetter(V value, I index, V* best, I* at) {
  const I better = (kLargest ? *best > value : *best < value) | (*best != *best);
  const I keep = better | ((*best == value) & (*at < index));
  *best = keep ? *best : value;
  *at = keep ? *at : index;
}

template <typename T, bool kLargest>
void ArgumentColumns(void* best_values, void* best_indices, const void* values, std::int64_t row_stride,
                     const void* indices, std::int64_t index_stride, std::int64_t rows, std::int64_t n) {
  using V = typename VectorTypes<T>::Register;
  using I = typename VectorTypes<std::int32_t>::Register;
  constexpr int kN = kLanes<T>;
  const auto* const x = static_cast<const std::int32_t*>(indices);
  for (std::int64_t i = 0; i < n; i += kN) {
    const LaneMask<T> mask(static_cast<int>(std::min<std::int64_t>(n - i, kN)));
    const LaneMask<std::int32_t> index_mask(static_cast<int>(std::min<std::int64_t>(n - i, kN)));
    T* const bv = static_cast<T*>(best_values) + i;
    auto* const bi = static_cast<std::int32_t*>(best_indices) + i;
    const T* const v = static_cast<const T*>(values) + i;
    V best = mask.Load(bv);
    I at = index_mask.Load(bi);
    for (std::int64_t r = 0; r < rows; ++r)
      KeepBetter<kLargest>(mask.Load(v + r * row_stride), I{} + x[r * index_stride], &best, &at);
    mask.Store(bv, best);
    index_mask.Store(bi, at);
  }
}
template <typename T, bool kLargest>
void ArgumentColumnsCall(const MicroArguments& m) {
  const auto& strides = *static_cast<const ArgumentStrides*>(m.operand[3]);
  ArgumentColumns<T, kLargest>(m.result, const_cast<void*>(m.operand[2]), m.operand[0], strides.values,
                               m.operand[1], strides.indices, m.immediate, m.n);
}

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
        KeepBetter<kLargest>(value, index, &best, &at);
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
  const auto set = [&](auto zero) {
    using T = decltype(zero);
    functions->short_rows = largest ? ArgumentRows<T, true> : ArgumentRows<T, false>;
    functions->columns = largest ? ArgumentColumns<T, true> : ArgumentColumns<T, false>;
    functions->columns_call = largest ? ArgumentColumnsCall<T, true> : ArgumentColumnsCall<T, false>;
  };
  if (value == RegisterType::kF32) {
    set(float{});
  } else if (value == RegisterType::kS32) {
    set(std::int32_t{});
  }
}

}  // namespace ipu_model::ISA_NAMESPACE
