// Picks elements with places that are computed in vectors.
#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "kernels/index/gather_words.h"

namespace ipu_model {
namespace ISA_NAMESPACE {
namespace {

#ifdef __AVX512F__
constexpr std::int64_t kIndices = 16;
using Indices = __m512i;

template <bool kUnsigned>
Indices Places(const WordPicks& picks, const std::int32_t* index) {
  const Indices zero = _mm512_setzero_si512();
  Indices v = _mm512_loadu_si512(index);
  if constexpr (kUnsigned) {
    v = _mm512_maskz_min_epu32(0xffff, v, _mm512_set1_epi32(picks.limit));
    return _mm512_mullo_epi32(v, _mm512_set1_epi32(picks.stride));
  }
  v = _mm512_mask_add_epi32(v, _mm512_movepi32_mask(v), v, _mm512_set1_epi32(picks.wrap));
  v = _mm512_maskz_min_epi32(0xffff, _mm512_maskz_max_epi32(0xffff, v, zero), _mm512_set1_epi32(picks.limit));
  return _mm512_mullo_epi32(v, _mm512_set1_epi32(picks.stride));
}
#else
constexpr std::int64_t kIndices = 8;
using Indices = __m256i;

template <bool kUnsigned>
Indices Places(const WordPicks& picks, const std::int32_t* index) {
  Indices v = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(index));
  if constexpr (kUnsigned) {
    v = _mm256_min_epu32(v, _mm256_set1_epi32(picks.limit));
    return _mm256_mullo_epi32(v, _mm256_set1_epi32(picks.stride));
  }
  v = _mm256_add_epi32(v, _mm256_and_si256(_mm256_srai_epi32(v, 31), _mm256_set1_epi32(picks.wrap)));
  v = _mm256_min_epi32(_mm256_max_epi32(v, _mm256_setzero_si256()), _mm256_set1_epi32(picks.limit));
  return _mm256_mullo_epi32(v, _mm256_set1_epi32(picks.stride));
}
#endif

// Loads of single elements: on many processors, instructions that gather take two or three times as long.
template <typename T>
void Pick(Indices places, const T* from, T* out) {
  alignas(64) std::int32_t each[kIndices];
  std::memcpy(each, &places, sizeof(each));
  if constexpr (sizeof(T) == 4) {
    for (std::int64_t i = 0; i < kIndices; i += 4) {
      __m128i x = _mm_cvtsi32_si128(from[each[i]]);
      x = _mm_insert_epi32(x, from[each[i + 1]], 1);
      x = _mm_insert_epi32(x, from[each[i + 2]], 2);
      x = _mm_insert_epi32(x, from[each[i + 3]], 3);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), x);
    }
    return;
  }
#pragma GCC unroll 16
  for (std::int64_t i = 0; i < kIndices; ++i) out[i] = from[each[i]];
}

template <bool kUnsigned, typename T>
void PickAll(const WordPicks& picks, std::int64_t n, const T* from, T* out) {
  std::int64_t i = 0;
  for (; i + kIndices <= n; i += kIndices) Pick(Places<kUnsigned>(picks, picks.index + i), from, out + i);
  for (; i < n; ++i) {
    const std::int32_t index = picks.index[i];
    const std::int32_t v = index + (index < 0 ? picks.wrap : 0);
    const std::int32_t place = kUnsigned && index < 0 ? picks.limit : std::clamp(v, 0, picks.limit);
    out[i] = from[place * picks.stride];
  }
}

}  // namespace

void PickWords(const WordPicks& picks, std::int64_t n, std::size_t size, const void* from, void* out) {
  const auto pick = [&](auto zero) {
    using T = decltype(zero);
    picks.is_unsigned ? PickAll<true>(picks, n, static_cast<const T*>(from), static_cast<T*>(out))
                      : PickAll<false>(picks, n, static_cast<const T*>(from), static_cast<T*>(out));
  };
  switch (size) {
    case 1:
      return pick(std::int8_t{});
    case 2:
      return pick(std::int16_t{});
    case 4:
      return pick(std::int32_t{});
    default:
      return pick(std::int64_t{});
  }
}

}  // namespace ISA_NAMESPACE
}  // namespace ipu_model
