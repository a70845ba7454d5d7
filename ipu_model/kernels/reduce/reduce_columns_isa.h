// Combines the columns of as many rows as a vector has lanes. Only for *_isa.cc files.
#ifndef IPU_MODEL_KERNELS_REDUCE_REDUCE_COLUMNS_ISA_H_
#define IPU_MODEL_KERNELS_REDUCE_REDUCE_COLUMNS_ISA_H_

#include <cstdint>

#include "kernels/vector/register_transpose.h"

namespace ipu_model::ISA_NAMESPACE {

// Combines the columns [begin, end) of kLanes<T> rows at `stride` into `total`, in their order; lane r is row
// r. `started`: total holds a value already; otherwise the first column becomes it.
template <typename F, typename T>
[[gnu::always_inline]] inline void CombineColumns(const T* p, std::int64_t stride, std::int64_t begin,
                                                  std::int64_t end, bool started,
                                                  typename VectorTypes<T>::Register& total) {
  using Vector = typename VectorTypes<T>::Register;
  using Memory = typename VectorTypes<T>::Memory;
  constexpr int kN = kLanes<T>;
  Vector x[kN];
  const auto combine = [&](int columns) __attribute__((always_inline)) {
    Transpose<T>(x);
    if (started) {
      F::template Into<T>(total, x[0]);
    } else {
      total = x[0];
    }
    started = true;
#pragma GCC unroll 16
    for (int c = 1; c < kN; ++c) {
      if (c < columns) F::template Into<T>(total, x[c]);
    }
  };
  std::int64_t i = begin;
  for (; i + kN <= end; i += kN) {
#pragma GCC unroll 16
    for (int r = 0; r < kN; ++r) x[r] = *reinterpret_cast<const Memory*>(p + r * stride + i);
    combine(kN);
  }
  if (i == end) return;
  const int columns = static_cast<int>(end - i);
  const LaneMask<T> mask(columns);
#pragma GCC unroll 16
  for (int r = 0; r < kN; ++r) x[r] = mask.Load(p + r * stride + i);
  combine(columns);
}

}  // namespace ipu_model::ISA_NAMESPACE

#endif  // IPU_MODEL_KERNELS_REDUCE_REDUCE_COLUMNS_ISA_H_
