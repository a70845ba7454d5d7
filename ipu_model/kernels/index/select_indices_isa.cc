#include <immintrin.h>

#include "kernels/index/select_indices.h"

namespace ipu_model {
namespace ISA_NAMESPACE {

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
