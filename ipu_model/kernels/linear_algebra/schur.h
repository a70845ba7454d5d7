// The Schur form of one small matrix, in f32, f64, c64 and c128. Compiled per instruction set.
#ifndef IPU_MODEL_KERNELS_LINEAR_ALGEBRA_SCHUR_H_
#define IPU_MODEL_KERNELS_LINEAR_ALGEBRA_SCHUR_H_

#include <cstdint>

#include "hlo/SchurLimits.hpp"
#include "ipu_model/Types.hpp"

namespace ipu_model {

#define JAX_IPU_DECLARE_SCHUR                                                                                \
  /* Replaces the dense t [n, n], n <= hlo::kMostSchurRows, by the triangular T (of real matrices with 2 x 2 \
   */                                                                                                        \
  /* blocks as LAPACK's) and z by Z, where t = Z T Z^-1; z may be null. Z is unitary, or with `balanced` has \
   */                                                                                                        \
  /* the scaling of rows and columns by powers of two. NaN where t is not finite or it does not converge. */ \
  void SchurForm(DType type, std::int64_t n, bool balanced, void* t, void* z);

namespace avx2 {
JAX_IPU_DECLARE_SCHUR
}
namespace avx512 {
JAX_IPU_DECLARE_SCHUR
}
#undef JAX_IPU_DECLARE_SCHUR

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_LINEAR_ALGEBRA_SCHUR_H_
