#include <immintrin.h>

#include <array>

#include "kernels/index/select_indices.h"

namespace ipu_model {
namespace ISA_NAMESPACE {
#ifndef __AVX512F__
namespace {

// By the mask of 8 lanes: the lanes whose bit is set, in order, one byte for each.
constexpr std::array<std::uint64_t, 256> SetLanes() {
  std::array<std::uint64_t, 256> table{};
  for (unsigned mask = 0; mask < 256; ++mask) {
    int count = 0;
    for (std::uint64_t lane = 0; lane < 8; ++lane) {
      if ((mask >> lane & 1) != 0) table[mask] |= lane << (8 * count++);
    }
  }
  return table;
}
constexpr std::array<std::uint64_t, 256> kSetLanes = SetLanes();

}  // namespace
#endif

std::int64_t SelectIndices(const std::int32_t* index, std::int64_t n, std::int32_t wrap, std::int32_t first,
                           std::int32_t end, std::int32_t* positions, std::int32_t* values) {
  std::int64_t count = 0, i = 0;
#ifdef __AVX512F__
  const __m512i lowest = _mm512_set1_epi32(first), above = _mm512_set1_epi32(end);
  __m512i position = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  for (; i + 16 <= n; i += 16) {
    __m512i v = _mm512_loadu_si512(index + i);
    v = _mm512_mask_add_epi32(v, _mm512_movepi32_mask(v), v, _mm512_set1_epi32(wrap));
    const __mmask16 inside = _mm512_mask_cmplt_epi32_mask(_mm512_cmpge_epi32_mask(v, lowest), v, above);
    // Compress into registers first: compressing into memory is microcoded on some processors.
    _mm512_storeu_si512(positions + count, _mm512_maskz_compress_epi32(inside, position));
    _mm512_storeu_si512(values + count, _mm512_maskz_compress_epi32(inside, v));
    count += __builtin_popcount(inside);
    position = _mm512_add_epi32(position, _mm512_set1_epi32(16));
  }
#else
  const __m256i lowest = _mm256_set1_epi32(first), above = _mm256_set1_epi32(end);
  __m256i position = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  for (; i + 8 <= n; i += 8) {
    __m256i v = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(index + i));
    const __m256i negative = _mm256_srai_epi32(v, 31);
    v = _mm256_add_epi32(v, _mm256_and_si256(negative, _mm256_set1_epi32(wrap)));
    const __m256i inside = _mm256_andnot_si256(_mm256_cmpgt_epi32(lowest, v), _mm256_cmpgt_epi32(above, v));
    const auto mask = static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(inside)));
    const __m256i lanes = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<std::int64_t>(kSetLanes[mask])));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(positions + count),
                        _mm256_permutevar8x32_epi32(position, lanes));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(values + count), _mm256_permutevar8x32_epi32(v, lanes));
    count += __builtin_popcount(mask);
    position = _mm256_add_epi32(position, _mm256_set1_epi32(8));
  }
#endif
  for (; i < n; ++i) {
    const std::int32_t v = index[i] + (index[i] < 0 ? wrap : 0);
    positions[count] = static_cast<std::int32_t>(i);
    values[count] = v;
    count += v >= first && v < end ? 1 : 0;
  }
  return count;
}

}  // namespace ISA_NAMESPACE
}  // namespace ipu_model
