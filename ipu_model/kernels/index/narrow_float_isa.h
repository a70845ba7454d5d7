// Elements of 16-bit floats, which are computed in f32: one at a time, or as one register of f32. Only for
// *_isa.cc files.
#ifndef IPU_MODEL_KERNELS_INDEX_NARROW_FLOAT_ISA_H_
#define IPU_MODEL_KERNELS_INDEX_NARROW_FLOAT_ISA_H_

#include <immintrin.h>

#include <cstdint>
#include <type_traits>

#include "kernels/host/half_rounding.h"
#include "kernels/vector/convert.h"
#include "kernels/vector/vector_types.h"

namespace ipu_model::ISA_NAMESPACE {

using Floats = VectorTypes<float>::Register;
using FloatBits = VectorTypes<std::uint32_t>::Register;
constexpr int kFloats = kLanes<float>;

static inline FloatBits BitsOf(Floats x) { return reinterpret_cast<FloatBits>(x); }
static inline Floats FloatsOf(FloatBits x) { return reinterpret_cast<Floats>(x); }

#ifdef __AVX512F__
// As many 16-bit elements as a register has f32 lanes. Those of n < kFloats leave the memory behind them
// alone.
using NarrowBits = __m256i;
static inline __mmask16 FirstFloats(std::int64_t n) { return static_cast<__mmask16>((1u << n) - 1u); }
static inline NarrowBits LoadNarrow(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}
static inline NarrowBits LoadNarrow(const void* p, std::int64_t n) {
  return _mm256_maskz_loadu_epi16(FirstFloats(n), p);
}
static inline void StoreNarrow(void* p, NarrowBits x) { _mm256_storeu_si256(static_cast<__m256i*>(p), x); }
static inline void StoreNarrow(void* p, NarrowBits x, std::int64_t n) {
  _mm256_mask_storeu_epi16(p, FirstFloats(n), x);
}
#else
using NarrowBits = __m128i;
static inline NarrowBits LoadNarrow(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
static inline void StoreNarrow(void* p, NarrowBits x) { _mm_storeu_si128(static_cast<__m128i*>(p), x); }
#endif

// f16, rounded to nearest even. NaN becomes the quiet one without payload, as in Encode: the instructions
// keep the payload.
struct F16 {
  std::uint16_t bits;
  float value() const { return _cvtsh_ss(bits); }
  static F16 Of(float x) {
    const std::uint32_t magnitude = ipu_model::BitsOf(x) & 0x7fffffffu;
    if (magnitude > 0x7f800000u) {
      return {static_cast<std::uint16_t>((ipu_model::BitsOf(x) >> 31) << 15 | 0x7e00u)};
    }
    return {static_cast<std::uint16_t>(_cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT))};
  }
#ifdef __AVX512F__
  static Floats Widened(NarrowBits x) { return reinterpret_cast<Floats>(_mm512_maskz_cvtph_ps(0xffff, x)); }
  static NarrowBits Narrowed(Floats x) {
    return _mm512_maskz_cvtps_ph(0xffff, reinterpret_cast<__m512>(WithPlainNan(x)),
                                 _MM_FROUND_TO_NEAREST_INT);
  }
#else
  static Floats Widened(NarrowBits x) { return reinterpret_cast<Floats>(_mm256_cvtph_ps(x)); }
  static NarrowBits Narrowed(Floats x) {
    return _mm256_cvtps_ph(reinterpret_cast<__m256>(WithPlainNan(x)), _MM_FROUND_TO_NEAREST_INT);
  }
#endif

 private:
  static Floats WithPlainNan(Floats x) {
    return x != x ? FloatsOf((BitsOf(x) & 0x80000000u) | 0x7fc00000u) : x;
  }
};

// f16 while results round stochastically: each element draws one number, in the order of the elements.
struct StochasticF16 {
  std::uint16_t bits;
  float value() const { return F16ToF32(bits); }
  static StochasticF16 Of(float x) { return {F32ToF16(RoundStochastically(x))}; }
};

struct BF16 {
  std::uint16_t bits;
  float value() const { return BF16ToF32(bits); }
  static BF16 Of(float x) { return {F32ToBF16(x)}; }
  static Floats Widened(NarrowBits x) {
#ifdef __AVX512F__
    const __m512i wide = _mm512_maskz_cvtepu16_epi32(0xffff, x);
#else
    const __m256i wide = _mm256_cvtepu16_epi32(x);
#endif
    return FloatsOf(reinterpret_cast<FloatBits>(wide) << 16);
  }
  static NarrowBits Narrowed(Floats x) {
    const FloatBits bits = BitsOf(x), rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const FloatBits result = x != x ? (bits >> 16) | 0x40u : rounded;
#ifdef __AVX512F__
    return _mm512_maskz_cvtepi32_epi16(0xffff, reinterpret_cast<__m512i>(result));
#else
    const __m256i wide = reinterpret_cast<__m256i>(result);
    return _mm_packus_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1));
#endif
  }
};

template <typename T>
inline constexpr bool kNarrow =
    std::is_same_v<T, F16> || std::is_same_v<T, BF16> || std::is_same_v<T, StochasticF16>;

}  // namespace ipu_model::ISA_NAMESPACE

#endif  // IPU_MODEL_KERNELS_INDEX_NARROW_FLOAT_ISA_H_
