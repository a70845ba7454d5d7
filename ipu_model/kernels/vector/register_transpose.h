// Interleaves and transposes vector registers. Only for *_isa.cc files.
#ifndef IPU_MODEL_KERNELS_VECTOR_REGISTER_TRANSPOSE_H_
#define IPU_MODEL_KERNELS_VECTOR_REGISTER_TRANSPOSE_H_

#include <cstdint>
#include <type_traits>

#include "kernels/product/gemm_tile.h"
#include "kernels/vector/shuffle.h"

namespace ipu_model {
namespace ISA_NAMESPACE {

// Interleaves the elements of the lower or the upper halves of two vectors.
template <typename T>
struct Interleave {
  using Vector = typename VectorTypes<T>::Register;
  [[gnu::always_inline]] static Vector Low(Vector a, Vector b) { return Shuffle(a, b, Order(0)); }
  [[gnu::always_inline]] static Vector High(Vector a, Vector b) {
    return Shuffle(a, b, Order(kLanes<T> / 2));
  }

 private:
  using Index = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
  typedef Index IndexVector __attribute__((vector_size(kVectorBytes)));
  [[gnu::always_inline]] static IndexVector Order(int first) {
    IndexVector order;
#pragma GCC unroll 16
    for (int i = 0; i < kLanes<T>; ++i) order[i] = static_cast<Index>(first + i / 2 + (i % 2) * kLanes<T>);
    return order;
  }
};

// The even (`odd` = 0) or odd elements of a, then those of b.
template <typename T>
struct EverySecond {
  using Vector = typename VectorTypes<T>::Register;
  [[gnu::always_inline]] static Vector Of(Vector a, Vector b, int odd) {
    using Index = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
    typedef Index IndexVector __attribute__((vector_size(kVectorBytes)));
    IndexVector order;
#pragma GCC unroll 16
    for (int i = 0; i < kLanes<T>; ++i) order[i] = static_cast<Index>(2 * i + odd);
    return Shuffle(a, b, order);
  }
};

// Shuffles within 16-byte lanes, and of whole lanes. They take half the time of shuffles that select any
// element of two registers.
template <typename T>
struct LaneShuffle {
  using Vector = typename VectorTypes<T>::Register;
  static constexpr int kLaneElements = 16 / static_cast<int>(sizeof(T));
  // In every lane: interleaves groups of kGroup elements from the lower or upper halves of the lanes of a and
  // b.
  template <int kGroup>
  [[gnu::always_inline]] static Vector Low(Vector a, Vector b) {
    return Shuffle(a, b, InLanes<kGroup>(0));
  }
  template <int kGroup>
  [[gnu::always_inline]] static Vector High(Vector a, Vector b) {
    return Shuffle(a, b, InLanes<kGroup>(kLaneElements / 2));
  }
  // The even (odd) lanes of a, then those of b.
  [[gnu::always_inline]] static Vector Even(Vector a, Vector b) { return Shuffle(a, b, OfLanes(0)); }
  [[gnu::always_inline]] static Vector Odd(Vector a, Vector b) { return Shuffle(a, b, OfLanes(1)); }

 private:
  using Index = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
  typedef Index IndexVector __attribute__((vector_size(kVectorBytes)));
  template <int kGroup>
  [[gnu::always_inline]] static IndexVector InLanes(int first) {
    IndexVector order;
#pragma GCC unroll 16
    for (int i = 0; i < kLanes<T>; ++i) {
      const int lane = i / kLaneElements * kLaneElements, group = i % kLaneElements / kGroup;
      order[i] = static_cast<Index>(first + lane + group / 2 * kGroup + i % kGroup + group % 2 * kLanes<T>);
    }
    return order;
  }
  [[gnu::always_inline]] static IndexVector OfLanes(int odd) {
    IndexVector order;
#pragma GCC unroll 16
    for (int i = 0; i < kLanes<T>; ++i) {
      const int lane = i / kLaneElements;  // lane pairs over both registers
      order[i] = static_cast<Index>((2 * lane + odd) * kLaneElements + i % kLaneElements);
    }
    return order;
  }
};

// Transposes rows[i][j] <-> rows[j][i]: first squares within a lane, in groups of as many rows as a lane has
// elements, then whole lanes among the groups.
template <typename T>
[[gnu::always_inline]] inline void Transpose(typename VectorTypes<T>::Register (&rows)[kLanes<T>]) {
  using Shuffle = LaneShuffle<T>;
  constexpr int kN = kLanes<T>, kLane = Shuffle::kLaneElements, kGroups = kN / kLane;
  static_assert(kLane == 2 || kLane == 4, "one or two rounds within lanes");
  static_assert(kGroups == 2 || kGroups == 4, "one or two rounds of lanes");
  typename VectorTypes<T>::Register next[kN];
#pragma GCC unroll 8
  for (int i = 0; i < kN; i += 2) {
    next[i] = Shuffle::template Low<1>(rows[i], rows[i + 1]);
    next[i + 1] = Shuffle::template High<1>(rows[i], rows[i + 1]);
  }
  if constexpr (kLane == 4) {
#pragma GCC unroll 4
    for (int i = 0; i < kN; i += 4) {
#pragma GCC unroll 2
      for (int j = 0; j < 2; ++j) {
        rows[i + 2 * j] = Shuffle::template Low<2>(next[i + j], next[i + j + 2]);
        rows[i + 2 * j + 1] = Shuffle::template High<2>(next[i + j], next[i + j + 2]);
      }
    }
  } else {
#pragma GCC unroll 16
    for (int i = 0; i < kN; ++i) rows[i] = next[i];
  }
  // Row i of a group now holds columns i, i + kLane, i + 2 * kLane, ... of the group's rows, one in each
  // lane.
#pragma GCC unroll 4
  for (int i = 0; i < kLane; ++i) {
    typename VectorTypes<T>::Register even = Shuffle::Even(rows[i], rows[kLane + i]),
                                      odd = Shuffle::Odd(rows[i], rows[kLane + i]);
    if constexpr (kGroups == 2) {
      next[i] = even;
      next[kLane + i] = odd;
    } else {
      const auto even2 = Shuffle::Even(rows[2 * kLane + i], rows[3 * kLane + i]);
      const auto odd2 = Shuffle::Odd(rows[2 * kLane + i], rows[3 * kLane + i]);
      next[i] = Shuffle::Even(even, even2);
      next[kLane + i] = Shuffle::Even(odd, odd2);
      next[2 * kLane + i] = Shuffle::Odd(even, even2);
      next[3 * kLane + i] = Shuffle::Odd(odd, odd2);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < kN; ++i) rows[i] = next[i];
}

}  // namespace ISA_NAMESPACE
}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_VECTOR_REGISTER_TRANSPOSE_H_
