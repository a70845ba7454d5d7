// Steps of reductions by reflections from both sides, to Hessenberg, tridiagonal and bidiagonal form, in f32,
// f64, c64 and c128. Compiled per instruction set. A block is columns of n contiguous elements one after the
// other, the first of them number `first` of the matrix. Reflectors are as in reflectors.h.
#ifndef IPU_MODEL_KERNELS_LINEAR_ALGEBRA_TWO_SIDED_H_
#define IPU_MODEL_KERNELS_LINEAR_ALGEBRA_TWO_SIDED_H_

#include <cstdint>

#include "ipu_model/Types.hpp"

namespace ipu_model {

struct ColumnBlock {
  DType type;
  std::int64_t n, first, count;
  void* data;
};

#define JAX_IPU_DECLARE_TWO_SIDED                                                                            \
  /* z[c] = conj(tau) v^H a_c for each column c of the block, or its conjugate. */                           \
  void ProjectColumns(const ColumnBlock& block, std::int64_t pivot, const void* v, const void* tau,          \
                      bool conjugate, void* z);                                                              \
  /* y = tau A v, for the columns of A [rows, columns] from the pivot of v on; column k begins at */         \
  /* a + k * stride. With u and z (one element for each of those columns), of A - u z in place of A. */      \
  void MultiplyVector(DType type, std::int64_t rows, std::int64_t columns, std::int64_t stride,              \
                      const void* a, const void* v, const void* tau, const void* u, const void* z, void* y); \
  /* The reflector w (n) with `pivot` that makes zeros of row - z after it; one element of both for each */  \
  /* column from the pivot on, those of `row` `stride` apart. */                                             \
  void FindRowReflector(DType type, std::int64_t n, std::int64_t pivot, std::int64_t stride,                 \
                        const void* row, const void* z, void* w, void* tau);                                 \
  /* The columns from the pivot on of H^H A H, from A, y = tau A v and z = conj(tau) v^H A (of the block's   \
   */                                                                                                        \
  /* columns). Without z, A is Hermitian, and only rows from the pivot on, where y begins, are updated. */   \
  void ReflectBothSides(const ColumnBlock& block, std::int64_t pivot, const void* v, const void* tau,        \
                        const void* y, const void* z);                                                       \
  /* The columns from the pivot of w on of A - u z - y w^H; u has the pivot before. y begins there. */       \
  void SubtractBoth(const ColumnBlock& block, std::int64_t pivot, const void* u, const void* z,              \
                    const void* y, const void* w);

namespace avx2 {
JAX_IPU_DECLARE_TWO_SIDED
}
namespace avx512 {
JAX_IPU_DECLARE_TWO_SIDED
}
#undef JAX_IPU_DECLARE_TWO_SIDED

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_LINEAR_ALGEBRA_TWO_SIDED_H_
