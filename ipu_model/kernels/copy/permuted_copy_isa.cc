// Permutations of vectors of 16 lanes. Lanes of 1 and 2 bytes are permuted as 32 bits.
#include <immintrin.h>

#include <type_traits>

#include "kernels/copy/permuted_copy.h"

namespace ipu_model {
namespace ISA_NAMESPACE {
namespace {

#ifdef __AVX512F__
constexpr __mmask16 kAll = 0xffff;

template <std::size_t kSize>
__m512i Load(__mmask16 lanes, const unsigned char* from) {
  if constexpr (kSize == 1) return _mm512_maskz_cvtepu8_epi32(kAll, _mm_maskz_loadu_epi8(lanes, from));
  if constexpr (kSize == 2) return _mm512_maskz_cvtepu16_epi32(kAll, _mm256_maskz_loadu_epi16(lanes, from));
  return _mm512_maskz_loadu_epi32(lanes, from);
}

template <std::size_t kSize>
void Store(__mmask16 lanes, unsigned char* to, const __m512i& value) {
  if constexpr (kSize == 1) {
    const __m128i bytes = _mm512_maskz_cvtepi32_epi8(kAll, value);
    if (lanes == kAll) return _mm_storeu_si128(reinterpret_cast<__m128i*>(to), bytes);
    _mm_mask_storeu_epi8(to, lanes, bytes);
  } else if constexpr (kSize == 2) {
    const __m256i words = _mm512_maskz_cvtepi32_epi16(kAll, value);
    if (lanes == kAll) return _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), words);
    _mm256_mask_storeu_epi16(to, lanes, words);
  } else {
    if (lanes == kAll) return _mm512_storeu_si512(to, value);
    _mm512_mask_storeu_epi32(to, lanes, value);
  }
}

template <std::size_t kSize>
void Run(const PermutedCopy& copy, const unsigned char* src, unsigned char* dst) {
  constexpr std::size_t kVector = PermutedCopy::kLanes * kSize;
  const PermutedCopy::Step* s = copy.steps.data();
  const PermutedCopy::Step *const single = s + copy.num_single, *const end = s + copy.steps.size();
  const auto lanes = [](const PermutedCopy::Step& step) {
    return _mm512_maskz_cvtepu8_epi32(kAll, _mm_loadu_si128(reinterpret_cast<const __m128i*>(step.lane)));
  };
  for (; s < single; ++s) {
    const __m512i first = Load<kSize>(s->first, src + s->from);
    Store<kSize>(s->result, dst + s->to, _mm512_maskz_permutexvar_epi32(kAll, lanes(*s), first));
  }
  for (; s < end; ++s) {
    const __m512i first = Load<kSize>(s->first, src + s->from),
                  second = Load<kSize>(s->second, src + s->from + kVector);
    Store<kSize>(s->result, dst + s->to, _mm512_permutex2var_epi32(first, lanes(*s), second));
  }
}

#else
// AVX2 has no permutation of two vectors, nor masks for short lanes: each lane is copied by itself.
template <std::size_t kSize>
void Run(const PermutedCopy& copy, const unsigned char* src, unsigned char* dst) {
  using Lane = std::conditional_t<kSize == 1, std::uint8_t,
                                  std::conditional_t<kSize == 2, std::uint16_t, std::uint32_t> >;
  for (const PermutedCopy::Step& s : copy.steps) {
    const auto* const from = reinterpret_cast<const Lane*>(src + s.from);
    auto* const to = reinterpret_cast<Lane*>(dst + s.to);
    if (s.result == 0xffff) {
#pragma GCC unroll 16
      for (int i = 0; i < PermutedCopy::kLanes; ++i) to[i] = from[s.lane[i]];
    } else {
      for (unsigned lanes = s.result; lanes != 0; lanes &= lanes - 1) {
        const int i = __builtin_ctz(lanes);
        to[i] = from[s.lane[i]];
      }
    }
  }
}
#endif

}  // namespace

void RunPermutedCopy(const PermutedCopy& copy, const void* src, void* dst) {
  const auto* from = static_cast<const unsigned char*>(src);
  auto* to = static_cast<unsigned char*>(dst);
  switch (copy.size) {
    case 1:
      return Run<1>(copy, from, to);
    case 2:
      return Run<2>(copy, from, to);
    default:
      return Run<4>(copy, from, to);
  }
}

}  // namespace ISA_NAMESPACE
}  // namespace ipu_model
