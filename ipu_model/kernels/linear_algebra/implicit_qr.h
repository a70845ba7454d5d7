// The implicit QR algorithm for real symmetric tridiagonal matrices, and for the singular values of real
// upper bidiagonal matrices, in f32 and f64. Compiled per instruction set.
#ifndef IPU_MODEL_KERNELS_LINEAR_ALGEBRA_IMPLICIT_QR_H_
#define IPU_MODEL_KERNELS_LINEAR_ALGEBRA_IMPLICIT_QR_H_

#include <cstdint>

#include "ipu_model/Types.hpp"

namespace ipu_model {

// A row-major matrix with as many rows as the tridiagonal or bidiagonal one. Every plane rotation of the
// algorithm is applied to two adjacent rows. `columns` may be 0.
struct RotatedRows {
  void* data = nullptr;
  std::int64_t columns = 0, stride = 0;
};

#define JAX_IPU_DECLARE_IMPLICIT_QR                                                                       \
  /* Diagonalises the matrix T with diagonal d [n] and off-diagonal e [n - 1]: G T G^T. d becomes the */  \
  /* result, rows becomes G rows. Destroys e. Returns false if it does not converge. */                   \
  bool TridiagonalQr(DType type, std::int64_t n, void* d, void* e, const RotatedRows& rows);              \
  /* Diagonalises the matrix B with diagonal d [n] and e [n - 1] above it: L B R^T. d becomes the */      \
  /* result, without negative entries; left becomes L left, right becomes R right. Destroys e. Returns */ \
  /* false if it does not converge. */                                                                    \
  bool BidiagonalQr(DType type, std::int64_t n, void* d, void* e, const RotatedRows& left,                \
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
