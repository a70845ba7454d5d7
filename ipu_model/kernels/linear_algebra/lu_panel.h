// LU factorisation of a few columns with partial pivoting, in f32, f64, c64 and c128. Compiled per
// instruction set.
#ifndef IPU_MODEL_KERNELS_LINEAR_ALGEBRA_LU_PANEL_H_
#define IPU_MODEL_KERNELS_LINEAR_ALGEBRA_LU_PANEL_H_

#include <cstdint>

#include "ipu_model/Types.hpp"

namespace ipu_model {

#define JAX_IPU_DECLARE_LU_PANEL                                                                           \
  /* a [n, m], m >= n, holds the panel's columns, each contiguous. Replaces them by U and, below the */    \
  /* diagonal, L without its unit diagonal. Swaps row k with row pivots[k], for k in turn. The pivot is */ \
  /* the first of the largest entries (complex: by the sum of the absolute parts); NaN is never larger. */ \
  void FactorPanel(DType type, std::int64_t m, std::int64_t n, void* a, std::int32_t* pivots);             \
  /* Eliminates column j from the rows [begin, m) of the row-major `a` [m, n], by the pivot row. */        \
  void EliminateRows(DType type, std::int64_t m, std::int64_t n, std::int64_t begin, std::int64_t j,       \
                     const void* pivot_row, void* a);                                                      \
  /* Returns the pivot row of column j among the rows from `begin` on of the row-major a [m, n]. Writes */ \
  /* the pivot's size to `size`; if all entries are NaN, writes -1 and returns `begin`. */                 \
  std::int64_t FindPivot(DType type, std::int64_t m, std::int64_t n, std::int64_t begin, std::int64_t j,   \
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
