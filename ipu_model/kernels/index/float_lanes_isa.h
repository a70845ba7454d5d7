// Loads and stores of f32 and 16-bit floats as registers of f32, whole or the first lanes of one. Only for
// *_isa.cc files.
#ifndef IPU_MODEL_KERNELS_INDEX_FLOAT_LANES_ISA_H_
#define IPU_MODEL_KERNELS_INDEX_FLOAT_LANES_ISA_H_

#include <cstdint>
#include <type_traits>

#include "kernels/index/narrow_float_isa.h"
#include "kernels/vector/float_vector.h"

namespace ipu_model::ISA_NAMESPACE {

template <typename T>
inline constexpr bool kHasLanes =
    std::is_same_v<T, float> || std::is_same_v<T, F16> || std::is_same_v<T, BF16>;
// Whether n < kFloats elements can be loaded and stored without touching others.
#ifdef __AVX512F__
template <typename T>
inline constexpr bool kHasParts = kHasLanes<T>;
#else
template <typename T>
inline constexpr bool kHasParts = std::is_same_v<T, float>;
#endif

template <typename T, typename... Count>
static inline Floats LoadFloats(const T* p, Count... n) {
  if constexpr (std::is_same_v<T, float>) {
    return reinterpret_cast<Floats>(LoadLanes(p, static_cast<int>(n)...).v);
  } else {
    return T::Widened(LoadNarrow(p, n...));
  }
}
template <typename T>
static inline void StoreFloats(T* p, Floats x) {
  if constexpr (std::is_same_v<T, float>) {
    StoreLanes(p, FloatVector(reinterpret_cast<decltype(FloatVector::v)>(x)));
  } else {
    StoreNarrow(p, T::Narrowed(x));
  }
}
template <typename T>
static inline void StoreFloats(T* p, std::int64_t n, Floats x) {
  if constexpr (std::is_same_v<T, float>) {
    StoreLanes(p, static_cast<int>(n), FloatVector(reinterpret_cast<decltype(FloatVector::v)>(x)));
  } else {
    StoreNarrow(p, T::Narrowed(x), n);
  }
}

}  // namespace ipu_model::ISA_NAMESPACE

#endif  // IPU_MODEL_KERNELS_INDEX_FLOAT_LANES_ISA_H_
