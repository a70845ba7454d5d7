// A register of f32 lanes with the operations of elementary functions. Intrinsics, because compilers turn the
// equivalent scalar code into up to twice as many instructions. Only for *_isa.cc files.
#ifndef IPU_MODEL_KERNELS_VECTOR_FLOAT_VECTOR_H_
#define IPU_MODEL_KERNELS_VECTOR_FLOAT_VECTOR_H_

#include <immintrin.h>

#include <cstdint>

namespace ipu_model::ISA_NAMESPACE {

#ifdef __AVX512F__

// The intrinsics without a mask start from an undefined register, for which GCC 12 warns about uninitialised
// use.
constexpr __mmask16 kEveryLane = 0xffff;

struct FloatVector {
  static constexpr int kLanes = 16;
  __m512 v;
  FloatVector(__m512 x) : v(x) {}
  FloatVector(float x) : v(_mm512_set1_ps(x)) {}
};
struct LaneChoice {
  __mmask16 m;
};

static inline FloatVector LoadLanes(const float* p) { return _mm512_loadu_ps(p); }
static inline void StoreLanes(float* p, FloatVector x) { _mm512_storeu_ps(p, x.v); }
// Only the first n < kLanes lanes: the load sets the others to 0, the store leaves their memory as it is.
static inline FloatVector LoadLanes(const float* p, int n) {
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << n) - 1u), p);
}
static inline void StoreLanes(float* p, int n, FloatVector x) {
  _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << n) - 1u), x.v);
}

static inline FloatVector operator+(FloatVector a, FloatVector b) { return _mm512_add_ps(a.v, b.v); }
static inline FloatVector operator-(FloatVector a, FloatVector b) { return _mm512_sub_ps(a.v, b.v); }
static inline FloatVector operator*(FloatVector a, FloatVector b) { return _mm512_mul_ps(a.v, b.v); }
static inline FloatVector operator/(FloatVector a, FloatVector b) { return _mm512_div_ps(a.v, b.v); }
static inline FloatVector Fma(FloatVector a, FloatVector b, FloatVector c) {
  return _mm512_fmadd_ps(a.v, b.v, c.v);
}
// a > b ? a : b; returns b if either is NaN.
static inline FloatVector Larger(FloatVector a, FloatVector b) {
  return _mm512_maskz_max_ps(kEveryLane, a.v, b.v);
}
// a < b ? a : b; returns b if either is NaN.
static inline FloatVector Smaller(FloatVector a, FloatVector b) {
  return _mm512_maskz_min_ps(kEveryLane, a.v, b.v);
}
// Rounds to the nearest integer, ties to even.
static inline FloatVector Nearest(FloatVector a) {
  return _mm512_maskz_roundscale_ps(kEveryLane, a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
static inline FloatVector Magnitude(FloatVector a) { return _mm512_abs_ps(a.v); }
static inline FloatVector NegativeMagnitude(FloatVector a) {
  return _mm512_or_ps(a.v, _mm512_set1_ps(-0.0f));
}
// |magnitude| with the sign of `sign`.
static inline FloatVector WithSign(FloatVector magnitude, FloatVector sign) {
  const __m512i chosen =
      _mm512_ternarylogic_epi32(_mm512_castps_si512(magnitude.v), _mm512_castps_si512(sign.v),
                                _mm512_set1_epi32(static_cast<std::int32_t>(0x80000000u)), 0xd8);
  return _mm512_castsi512_ps(chosen);
}
static inline LaneChoice operator<(FloatVector a, FloatVector b) {
  return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)};
}
static inline LaneChoice operator==(FloatVector a, FloatVector b) {
  return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ)};
}
static inline LaneChoice IsNan(FloatVector a) { return {_mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q)}; }
static inline FloatVector Choose(LaneChoice which, FloatVector yes, FloatVector no) {
  return _mm512_mask_blend_ps(which.m, no.v, yes.v);
}

// p * 2^n for p near 1 and |n| <= 150. Returns 0 below the normal range and infinity above it.
static inline FloatVector ScaleWide(FloatVector p, FloatVector n) {
  return _mm512_maskz_scalef_ps(kEveryLane, p.v, n.v);
}
static inline FloatVector AddToBits(FloatVector x, std::int32_t bits) {
  return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(x.v), _mm512_set1_epi32(bits)));
}
static inline FloatVector AndBits(FloatVector x, std::int32_t bits) {
  return _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(x.v), _mm512_set1_epi32(bits)));
}
// Shifts the bits, as a signed integer, right by `count`, and converts the integer to a float.
static inline FloatVector ShiftedBits(FloatVector x, int count) {
  return _mm512_maskz_cvtepi32_ps(kEveryLane, _mm512_maskz_srai_epi32(kEveryLane, _mm512_castps_si512(x.v),
                                                                      static_cast<unsigned>(count)));
}
// p * 2^n for a result in the normal range. The result for a NaN in n is p or NaN.
static inline FloatVector Scale(FloatVector p, FloatVector n) { return ScaleWide(p, n); }

#else

struct FloatVector {
  static constexpr int kLanes = 8;
  __m256 v;
  FloatVector(__m256 x) : v(x) {}
  FloatVector(float x) : v(_mm256_set1_ps(x)) {}
};
struct LaneChoice {
  __m256 m;
};

static inline __m256i FirstLanes(int n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
static inline FloatVector LoadLanes(const float* p) { return _mm256_loadu_ps(p); }
static inline void StoreLanes(float* p, FloatVector x) { _mm256_storeu_ps(p, x.v); }
static inline FloatVector LoadLanes(const float* p, int n) { return _mm256_maskload_ps(p, FirstLanes(n)); }
static inline void StoreLanes(float* p, int n, FloatVector x) { _mm256_maskstore_ps(p, FirstLanes(n), x.v); }

static inline FloatVector operator+(FloatVector a, FloatVector b) { return _mm256_add_ps(a.v, b.v); }
static inline FloatVector operator-(FloatVector a, FloatVector b) { return _mm256_sub_ps(a.v, b.v); }
static inline FloatVector operator*(FloatVector a, FloatVector b) { return _mm256_mul_ps(a.v, b.v); }
static inline FloatVector operator/(FloatVector a, FloatVector b) { return _mm256_div_ps(a.v, b.v); }
static inline FloatVector Fma(FloatVector a, FloatVector b, FloatVector c) {
  return _mm256_fmadd_ps(a.v, b.v, c.v);
}
static inline FloatVector Larger(FloatVector a, FloatVector b) { return _mm256_max_ps(a.v, b.v); }
static inline FloatVector Smaller(FloatVector a, FloatVector b) { return _mm256_min_ps(a.v, b.v); }
static inline FloatVector Nearest(FloatVector a) {
  return _mm256_round_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
static inline FloatVector Magnitude(FloatVector a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a.v); }
static inline FloatVector NegativeMagnitude(FloatVector a) {
  return _mm256_or_ps(_mm256_set1_ps(-0.0f), a.v);
}
static inline FloatVector WithSign(FloatVector magnitude, FloatVector sign) {
  return _mm256_or_ps(Magnitude(magnitude).v, _mm256_and_ps(_mm256_set1_ps(-0.0f), sign.v));
}
static inline LaneChoice operator<(FloatVector a, FloatVector b) {
  return {_mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ)};
}
static inline LaneChoice operator==(FloatVector a, FloatVector b) {
  return {_mm256_cmp_ps(a.v, b.v, _CMP_EQ_OQ)};
}
static inline LaneChoice IsNan(FloatVector a) { return {_mm256_cmp_ps(a.v, a.v, _CMP_UNORD_Q)}; }
static inline FloatVector Choose(LaneChoice which, FloatVector yes, FloatVector no) {
  return _mm256_blendv_ps(no.v, yes.v, which.m);
}

static inline FloatVector AddToBits(FloatVector x, std::int32_t bits) {
  return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(x.v), _mm256_set1_epi32(bits)));
}
static inline FloatVector AndBits(FloatVector x, std::int32_t bits) {
  return _mm256_castsi256_ps(_mm256_and_si256(_mm256_castps_si256(x.v), _mm256_set1_epi32(bits)));
}
static inline FloatVector ShiftedBits(FloatVector x, int count) {
  return _mm256_cvtepi32_ps(_mm256_srai_epi32(_mm256_castps_si256(x.v), count));
}
static inline FloatVector Scale(FloatVector p, FloatVector n) {
  const __m256i exponent = _mm256_slli_epi32(_mm256_cvttps_epi32(n.v), 23);
  return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p.v), exponent));
}
// Multiplies by two normal factors, so that the product is rounded and flushed only once.
static inline FloatVector ScaleWide(FloatVector p, FloatVector n) {
  const __m256i whole = _mm256_cvttps_epi32(n.v), half = _mm256_srai_epi32(whole, 1);
  const __m256i first = _mm256_add_epi32(_mm256_castps_si256(p.v), _mm256_slli_epi32(half, 23));
  const __m256i rest = _mm256_add_epi32(_mm256_sub_epi32(whole, half), _mm256_set1_epi32(127));
  return _mm256_mul_ps(_mm256_castsi256_ps(first), _mm256_castsi256_ps(_mm256_slli_epi32(rest, 23)));
}

#endif

// F: static FloatVector Apply(FloatVector), which treats every lane alone.
template <typename F>
static inline void ForEachVector(const float* a, float* r, std::int64_t n) {
  constexpr int kLanes = FloatVector::kLanes;
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) StoreLanes(r + i, F::Apply(LoadLanes(a + i)));
  const int rest = static_cast<int>(n - i);
  if (rest > 0) StoreLanes(r + i, rest, F::Apply(LoadLanes(a + i, rest)));
}

}  // namespace ipu_model::ISA_NAMESPACE

#endif  // IPU_MODEL_KERNELS_VECTOR_FLOAT_VECTOR_H_
