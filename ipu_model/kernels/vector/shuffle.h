// GCC's __builtin_shuffle, which clang does not have.
#ifndef IPU_MODEL_KERNELS_VECTOR_SHUFFLE_H_
#define IPU_MODEL_KERNELS_VECTOR_SHUFFLE_H_

namespace ipu_model {

// Element i of the result is element order[i] of a and b in a row. Always inlined, because files of every
// instruction set use it.
template <typename Vector, typename Order>
[[gnu::always_inline]] inline Vector Shuffle(Vector a, Vector b, Order order) {
#ifdef __clang__
  // Clang's own builtin wants the order as template arguments. Only the fuzz targets are built with clang.
  constexpr int kCount = static_cast<int>(sizeof(Vector) / sizeof(a[0]));
  Vector result = a;
  for (int i = 0; i < kCount; ++i) {
    const auto from = static_cast<int>(order[i]);
    result[i] = from < kCount ? a[from] : b[from - kCount];
  }
  return result;
#else
  return __builtin_shuffle(a, b, order);
#endif
}

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_VECTOR_SHUFFLE_H_
