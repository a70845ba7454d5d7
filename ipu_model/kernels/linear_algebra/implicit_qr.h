// The implicit QR algorithm for real symmetric tridiagonal matrices, and for the singular values of real
// upper bidiagonal ones: f32, f64. Compiled for each instruction set.
#ifndef IPU_MODEL_KERNELS_LINEAR_ALGEBRA_IMPLICIT_QR_H_
#define IPU_MODEL_KERNELS_LINEAR_ALGEBRA_IMPLICIT_QR_H_

#include <cstdint>

#include "ipu_model/Types.hpp"

namespace ipu_model {

// A row-major matrix with as many rows as the tridiagonal or bidiagonal one: every rotation of the algorithm
// turns two neighbouring rows. `columns` may be 0.
struct RotatedRows {
  void* data = nullptr;
  std::int64_t columns = 0, stride = 0;
};

#define JAX_IPU_DECLARE_IMPLICIT_QR                                                                         \
  /* The matrix with diagonal d [n] and e [n - 1] beside it becomes diagonal, G T G^T: d. rows becomes G */ \
  /* rows. False when it does not converge. Destroys e. */                                                  \
  bool TridiagonalQr(DType type, std::int64_t n, void* d, void* e, const RotatedRows& rows);                \
  /* The matrix with diagonal d [n] and e [n - 1] above it becomes diagonal, L B R^T: d, none negative. */  \
  /* left becomes L left, right R right. False when it does not converge. Destroys e. */                    \
  bool BidiagonalQr(DType type, std::int64_t n, void* d, void* e, const RotatedRows& left,                  \
                    const RotatedRows& right);

namespace avx2 {
JAX_IPU_DECLARE_IMPLICIT_QR
}
namespace avx512 {
JAX_IPU_DECLARE_IMPLICIT_QR
}
#undef JAX_IPU_DECLARE_IMPLICIT_QR

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_LINEAR_ALGEBRA_IMPLICIT_QR_H_
