// Householder reflections 1 - tau v v^H, where v is 0 above its pivot and 1 there, in f32, f64, c64 and c128.
// Compiled per instruction set. A column is m elements, `stride` elements apart.
#ifndef IPU_MODEL_KERNELS_LINEAR_ALGEBRA_REFLECTORS_H_
#define IPU_MODEL_KERNELS_LINEAR_ALGEBRA_REFLECTORS_H_

#include <cstdint>

#include "ipu_model/Types.hpp"

namespace ipu_model {

#define JAX_IPU_DECLARE_REFLECTORS                                                                          \
  /* Finds the reflection whose adjoint makes the column zero below `pivot`, by LAPACK's larfg: writes v */ \
  /* below the pivot, the real entry that results at it, and tau. */                                        \
  void FindReflector(DType type, std::int64_t m, std::int64_t pivot, std::int64_t stride, void* column,     \
                     void* tau);                                                                            \
  /* Applies a reflection, or its adjoint, to a column. v is at v[(pivot + 1) * v_stride] and so on. */     \
  void Reflect(DType type, std::int64_t m, std::int64_t pivot, bool adjoint, std::int64_t v_stride,         \
               const void* v, const void* tau, std::int64_t stride, void* column);

namespace avx2 {
JAX_IPU_DECLARE_REFLECTORS
}
namespace avx512 {
JAX_IPU_DECLARE_REFLECTORS
}
#undef JAX_IPU_DECLARE_REFLECTORS

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_LINEAR_ALGEBRA_REFLECTORS_H_
