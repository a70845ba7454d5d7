// LU factorisation of a few columns with partial pivots: f32, f64, c64, c128. Compiled for each instruction
// set.
#ifndef IPU_MODEL_KERNELS_LINEAR_ALGEBRA_LU_PANEL_H_
#define IPU_MODEL_KERNELS_LINEAR_ALGEBRA_LU_PANEL_H_

#include <cstdint>

#include "ipu_model/Types.hpp"

namespace ipu_model {

#define JAX_IPU_DECLARE_LU_PANEL                                                                             \
  /* a [n, m], m >= n, holds the panel's columns, each contiguous; it becomes U above L without its */       \
  /* diagonal. Row k changed places with row pivots[k], in turn. The pivot is the first of the largest, */   \
  /* complex numbers by the sum of their parts; NaN is never larger. */                                      \
  void FactorPanel(DType type, std::int64_t m, std::int64_t n, void* a, std::int32_t* pivots);               \
  /* Column j is eliminated from rows [begin, m) of `a`, row-major [m, n], by the pivot row. */              \
  void EliminateRows(DType type, std::int64_t m, std::int64_t n, std::int64_t begin, std::int64_t j,         \
                     const void* pivot_row, void* a);                                                        \
  /* The row from `begin` on of the row-major a [m, n] with the pivot of column j; `size` is its size, -1 */ \
  /* where all are NaN: then it is row `begin`. */                                                           \
  std::int64_t FindPivot(DType type, std::int64_t m, std::int64_t n, std::int64_t begin, std::int64_t j,     \
                         const void* a, double* size);

namespace avx2 {
JAX_IPU_DECLARE_LU_PANEL
}
namespace avx512 {
JAX_IPU_DECLARE_LU_PANEL
}
#undef JAX_IPU_DECLARE_LU_PANEL

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_LINEAR_ALGEBRA_LU_PANEL_H_
