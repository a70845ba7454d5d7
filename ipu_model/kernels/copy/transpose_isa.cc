// Transposition of square tiles of cache lines.
#include <immintrin.h>

#include <cstring>
#include <type_traits>

#include "kernels/copy/transpose.h"
#include "kernels/vector/register_transpose.h"

namespace ipu_model {
namespace ISA_NAMESPACE {
namespace {

// Interleaves, in every 16 bytes, elements of `kSize` bytes from the lower (or upper) halves of a and b.
#ifdef __AVX512F__
using Bytes = __m512i;
template <std::size_t kSize, bool kUpper>
[[gnu::always_inline]] inline Bytes Interleaved(const Bytes& a, const Bytes& b) {
  if constexpr (kSize == 1) return kUpper ? _mm512_unpackhi_epi8(a, b) : _mm512_unpacklo_epi8(a, b);
  return kUpper ? _mm512_unpackhi_epi16(a, b) : _mm512_unpacklo_epi16(a, b);
}
template <int kLane>
[[gnu::always_inline]] inline __m128i LaneOf(const Bytes& v) {
  return _mm512_maskz_extracti32x4_epi32(0xf, v, kLane);
}
#else
using Bytes = __m256i;
template <std::size_t kSize, bool kUpper>
[[gnu::always_inline]] inline Bytes Interleaved(const Bytes& a, const Bytes& b) {
  if constexpr (kSize == 1) return kUpper ? _mm256_unpackhi_epi8(a, b) : _mm256_unpacklo_epi8(a, b);
  return kUpper ? _mm256_unpackhi_epi16(a, b) : _mm256_unpacklo_epi16(a, b);
}
template <int kLane>
[[gnu::always_inline]] inline __m128i LaneOf(const Bytes& v) {
  return _mm256_extracti128_si256(v, kLane);
}
#endif

// Writes the 16-byte lanes of v, kFirst first, `stride` bytes apart.
template <int kFirst = 0>
[[gnu::always_inline]] inline void StoreLanes(const Bytes& v, unsigned char* to, std::int64_t stride) {
  if constexpr (kFirst < kVectorBytes / 16) {
    _mm_store_si128(reinterpret_cast<__m128i*>(to), LaneOf<kFirst>(v));
    StoreLanes<kFirst + 1>(v, to + stride, stride);
  }
}

// Elements of 1 or 2 bytes: squares of 16 bytes, as many side by side as a register holds.
template <typename T>
void TransposeNarrow(const unsigned char* from, std::int64_t from_stride, unsigned char* to) {
  constexpr int kSide = kLineElements<T>, kSquare = kTransposeSide<T>;
  for (int k = 0; k < kSide; k += kSquare) {
    for (int at = 0; at < kLineBytes; at += kVectorBytes) {
      Bytes rows[kSquare];
#pragma GCC unroll 16
      for (int i = 0; i < kSquare; ++i)
        std::memcpy(&rows[i], from + (k + i) * from_stride + at, sizeof(Bytes));
#pragma GCC unroll 4
      for (int round = 1; round < kSquare; round *= 2) {
        Bytes next[kSquare];
#pragma GCC unroll 8
        for (int i = 0; i < kSquare / 2; ++i) {
          next[2 * i] = Interleaved<sizeof(T), false>(rows[i], rows[i + kSquare / 2]);
          next[2 * i + 1] = Interleaved<sizeof(T), true>(rows[i], rows[i + kSquare / 2]);
        }
#pragma GCC unroll 16
        for (int i = 0; i < kSquare; ++i) rows[i] = next[i];
      }
      // Lane l of register i holds column l * kSquare + i.
      unsigned char* column =
          to + at / static_cast<int>(sizeof(T)) * kLineBytes + k * static_cast<int>(sizeof(T));
#pragma GCC unroll 16
      for (int i = 0; i < kSquare; ++i) StoreLanes(rows[i], column + i * kLineBytes, kSquare * kLineBytes);
    }
  }
}

// Cache lines at a power-of-two stride share cache sets. Touch each of them only once: transpose in
// registers, or through a buffer.
template <typename T>
void TransposeLines(const unsigned char* from, std::int64_t from_stride, unsigned char* to,
                    std::int64_t to_stride) {
  constexpr int kSide = kLineElements<T>;
#ifdef __AVX512F__
  if constexpr (sizeof(T) >= 4) {
    using Lane = std::conditional_t<sizeof(T) == 4, float, double>;
    using Memory = typename VectorTypes<Lane>::Memory;
    typename VectorTypes<Lane>::Register rows[kSide];
#pragma GCC unroll 16
    for (int k = 0; k < kSide; ++k) rows[k] = *reinterpret_cast<const Memory*>(from + k * from_stride);
    Transpose<Lane>(rows);
#pragma GCC unroll 16
    for (int i = 0; i < kSide; ++i) *reinterpret_cast<Memory*>(to + i * to_stride) = rows[i];
    return;
  }
#endif
  alignas(kLineBytes) unsigned char buffer[kSide * kLineBytes];
  if constexpr (sizeof(T) <= 2) {
    TransposeNarrow<T>(from, from_stride, buffer);
  } else {
    constexpr int kSize = sizeof(T), kSquare = kTransposeSide<T>;
    for (int k = 0; k < kSide; k += kSquare) {
      for (int i = 0; i < kSide; i += kSquare)
        TransposeSquare<T>(from + k * from_stride + i * kSize, from_stride,
                           buffer + i * kLineBytes + k * kSize, kLineBytes);
    }
  }
  for (int i = 0; i < kSide; ++i) std::memcpy(to + i * to_stride, buffer + i * kLineBytes, kLineBytes);
}

}  // namespace

TransposeFunction FindTransposeLines(std::size_t size) {
  switch (size) {
    case 1:
      return TransposeLines<std::uint8_t>;
    case 2:
      return TransposeLines<std::uint16_t>;
    case 4:
      return TransposeLines<std::uint32_t>;
    default:
      return TransposeLines<std::uint64_t>;
  }
}

}  // namespace ISA_NAMESPACE
}  // namespace ipu_model
