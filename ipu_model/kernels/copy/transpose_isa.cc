// Transposition of square tiles of cache lines.
#include <cstring>
#include <type_traits>

#include "kernels/copy/transpose.h"
#include "kernels/vector/register_transpose.h"

namespace ipu_model {
namespace ISA_NAMESPACE {
namespace {

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
  constexpr int kSize = sizeof(T), kSquare = kTransposeSide<T>;
  alignas(kLineBytes) unsigned char buffer[kSide * kLineBytes];
  for (int k = 0; k < kSide; k += kSquare) {
    for (int i = 0; i < kSide; i += kSquare)
      TransposeSquare<T>(from + k * from_stride + i * kSize, from_stride, buffer + i * kLineBytes + k * kSize,
                         kLineBytes);
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
