// Interleaving and transposing vector registers. For *_isa.cc files.
#ifndef JAX_IPU_KERNELS_REGISTER_TRANSPOSE_H_
#define JAX_IPU_KERNELS_REGISTER_TRANSPOSE_H_

#include <cstdint>
#include <type_traits>

#include "pjrt_plugin/ipu_model/kernels/gemm_tile.h"

namespace ipu_model {
namespace ISA_NAMESPACE {

// Elements of two vectors by turns, of their lower or their upper halves.
template <typename T>
struct Interleave {
  using Vector = typename VectorTypes<T>::Register;
  [[gnu::always_inline]] static Vector Low(Vector a, Vector b) { return __builtin_shuffle(a, b, Order(0)); }
  [[gnu::always_inline]] static Vector High(Vector a, Vector b) {
    return __builtin_shuffle(a, b, Order(kLanes<T> / 2));
  }

 private:
  using Index = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
  typedef Index IndexVector __attribute__((vector_size(kVectorBytes)));
  [[gnu::always_inline]] static IndexVector Order(int first) {
    IndexVector order;
#pragma GCC unroll 16
    for (int i = 0; i < kLanes<T>; ++i) order[i] = static_cast<Index>(first + i / 2 + (i % 2) * kLanes<T>);
    return order;
  }
};

// rows[i][j] <-> rows[j][i]: log2(lanes) rounds of interleaving row i with row i + lanes / 2.
template <typename T>
[[gnu::always_inline]] inline void Transpose(typename VectorTypes<T>::Register (&rows)[kLanes<T>]) {
  constexpr int kN = kLanes<T>;
#pragma GCC unroll 4
  for (int round = 1; round < kN; round *= 2) {
    typename VectorTypes<T>::Register next[kN];
#pragma GCC unroll 8
    for (int i = 0; i < kN / 2; ++i) {
      next[2 * i] = Interleave<T>::Low(rows[i], rows[i + kN / 2]);
      next[2 * i + 1] = Interleave<T>::High(rows[i], rows[i + kN / 2]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kN; ++i) rows[i] = next[i];
  }
}

}  // namespace ISA_NAMESPACE
}  // namespace ipu_model

#endif  // JAX_IPU_KERNELS_REGISTER_TRANSPOSE_H_
