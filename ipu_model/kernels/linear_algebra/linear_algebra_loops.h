// Loops of the dense factorisations, compiled per instruction set. Matrices are dense and row-major.
#ifndef IPU_MODEL_KERNELS_LINEAR_ALGEBRA_LINEAR_ALGEBRA_LOOPS_H_
#define IPU_MODEL_KERNELS_LINEAR_ALGEBRA_LINEAR_ALGEBRA_LOOPS_H_

#include <cstdint>

#include "ipu_model/Types.hpp"
#include "kernels/host/context.h"

namespace ipu_model {

#define JAX_IPU_DECLARE_LINEAR_ALGEBRA                                                                     \
  /* Replaces the lower triangle of a [n, n] by its Cholesky factor. `panel` holds 64 * n elements. */     \
  void CholeskyFactor(ThreadPool* pool, DType type, std::int64_t n, void* a, void* panel);                 \
  /* Replaces x [m, n] by a^-1 x. a is lower triangular, or upper triangular if `backward`. */             \
  void SolveLeft(DType type, std::int64_t m, std::int64_t n, const void* a, bool backward,                 \
                 bool unit_diagonal, void* x, std::int64_t x_stride);                                      \
  /* Replaces b [m, n] by b l^-H. l is lower triangular with rows of l_stride elements. */                 \
  void SolveRightAdjoint(DType type, std::int64_t m, std::int64_t n, const void* l, std::int64_t l_stride, \
                         void* b, std::int64_t b_stride);                                                  \
  /* c [m, n] -= a [m, k] bt [k, n], where bt already holds the adjoint. */                                \
  void MultiplySubtract(DType type, std::int64_t m, std::int64_t n, std::int64_t k, const void* a,         \
                        std::int64_t a_stride, const void* bt, std::int64_t bt_stride, void* c,            \
                        std::int64_t c_stride);

namespace avx2 {
JAX_IPU_DECLARE_LINEAR_ALGEBRA
}
namespace avx512 {
JAX_IPU_DECLARE_LINEAR_ALGEBRA
}
#undef JAX_IPU_DECLARE_LINEAR_ALGEBRA

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_LINEAR_ALGEBRA_LINEAR_ALGEBRA_LOOPS_H_
