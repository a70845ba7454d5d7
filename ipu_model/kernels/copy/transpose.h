// Transposition of square tiles in vector registers, for copies between memory orders.
#ifndef IPU_MODEL_KERNELS_COPY_TRANSPOSE_H_
#define IPU_MODEL_KERNELS_COPY_TRANSPOSE_H_

#include <cstddef>
#include <cstdint>

#include "kernels/host/isa.h"
#include "kernels/vector/shuffle.h"

namespace ipu_model {

// Side length of a square, in elements. T has at most 8 bytes.
template <typename T>
constexpr int kTransposeSide = 16 / sizeof(T);

template <typename T>
struct TransposeLanes {
  typedef T Vector __attribute__((vector_size(16)));
  typedef T Memory __attribute__((vector_size(16), aligned(1), may_alias));
};

// to(i)[k] = from(k)[i] for a square of one vector's lanes; `from` and `to` return the address of a row. Each
// round interleaves the upper half of the rows with the lower half. Always inlined, because files of every
// instruction set use it.
template <typename T, typename From, typename To>
[[gnu::always_inline]] inline void TransposeRows(From from, To to) {
  constexpr int kCount = kTransposeSide<T>;
  using Vector = typename TransposeLanes<T>::Vector;
  using Memory = typename TransposeLanes<T>::Memory;
  Vector low{}, high{};  // the lanes of two vectors, alternating
  for (int i = 0; i < kCount; ++i) {
    low[i] = static_cast<T>(i / 2 + i % 2 * kCount);
    high[i] = static_cast<T>(i / 2 + i % 2 * kCount + kCount / 2);
  }
  Vector rows[kCount];
#pragma GCC unroll 16
  for (int i = 0; i < kCount; ++i) rows[i] = *reinterpret_cast<const Memory*>(from(i));
#pragma GCC unroll 4
  for (int round = 1; round < kCount; round *= 2) {
    Vector next[kCount];
#pragma GCC unroll 8
    for (int i = 0; i < kCount / 2; ++i) {
      next[2 * i] = Shuffle(rows[i], rows[i + kCount / 2], low);
      next[2 * i + 1] = Shuffle(rows[i], rows[i + kCount / 2], high);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kCount; ++i) rows[i] = next[i];
  }
#pragma GCC unroll 16
  for (int i = 0; i < kCount; ++i) *reinterpret_cast<Memory*>(to(i)) = rows[i];
}

// The same for rows at a constant stride, in bytes.
template <typename T>
[[gnu::always_inline]] inline void TransposeSquare(const unsigned char* from, std::int64_t from_stride,
                                                   unsigned char* to, std::int64_t to_stride) {
  TransposeRows<T>([=](int k) { return from + k * from_stride; }, [=](int i) { return to + i * to_stride; });
}

// Bytes of a cache line.
constexpr std::int64_t kLineBytes = 64;
template <typename T>
constexpr int kLineElements = kLineBytes / sizeof(T);

// The same for a square whose rows fill one cache line each. Touches every line once.
using TransposeFunction = void (*)(const unsigned char* from, std::int64_t from_stride, unsigned char* to,
                                   std::int64_t to_stride);
namespace avx2 {
TransposeFunction FindTransposeLines(std::size_t size);  // element size: 1, 2, 4 or 8 bytes
}
namespace avx512 {
TransposeFunction FindTransposeLines(std::size_t size);
}
inline TransposeFunction FindTransposeLines(std::size_t size) {
  return JAX_IPU_FOR_ISA(FindTransposeLines(size));
}

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_COPY_TRANSPOSE_H_
