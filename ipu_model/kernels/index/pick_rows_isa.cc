// Words of few elements in a row are picked by permutations of registers, the others one by one.
#include <immintrin.h>

#include "kernels/index/pick_rows.h"

namespace ipu_model {
namespace ISA_NAMESPACE {
namespace {

#ifdef __AVX512F__
constexpr int kLanes = 16;
using Words = __m512i;
using Mask = __mmask16;

Mask First(std::int64_t n) { return static_cast<Mask>(n >= kLanes ? 0xffffu : n <= 0 ? 0u : (1u << n) - 1u); }
Words Load(const std::int32_t* p, Mask mask) { return _mm512_maskz_loadu_epi32(mask, p); }
void Store(std::int32_t* p, Mask mask, Words x) { _mm512_mask_storeu_epi32(p, mask, x); }
Words Permute(Words low, Words high, Words places) { return _mm512_permutex2var_epi32(low, places, high); }
#else
constexpr int kLanes = 8;
using Words = __m256i;
using Mask = __m256i;

Mask First(std::int64_t n) {
  const int lanes = static_cast<int>(n < 0 ? 0 : n > kLanes ? kLanes : n);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(lanes), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
Words Load(const std::int32_t* p, Mask mask) { return _mm256_maskload_epi32(p, mask); }
void Store(std::int32_t* p, Mask mask, Words x) { _mm256_maskstore_epi32(p, mask, x); }
Words Permute(Words low, Words high, Words places) {
  const Words is_high = _mm256_cmpgt_epi32(places, _mm256_set1_epi32(kLanes - 1));
  return _mm256_blendv_epi8(_mm256_permutevar8x32_epi32(low, places),
                            _mm256_permutevar8x32_epi32(high, places), is_high);
}
#endif

// Rows whose places lie in two registers, `kLanes` results at a time.
void PermuteRows(const RowPicks& picks, const std::int32_t* from, std::int32_t* out) {
  const Mask low = First(picks.largest + 1), high = First(picks.largest + 1 - kLanes);
  for (std::int64_t i = 0; i < picks.n; i += kLanes) {
    const Mask results = First(picks.n - i);
    const Words places = Load(picks.places + i, results);
    const std::int32_t* row = from;
    std::int32_t* to = out + i;
    for (std::int64_t r = 0; r < picks.rows; ++r, row += picks.from_step, to += picks.out_step) {
      Store(to, results, Permute(Load(row, low), Load(row + kLanes, high), places));
    }
  }
}

template <typename T, int kElements>
void PickFew(const RowPicks& picks, const T* from, T* out) {
  std::int32_t places[kElements];
  for (int i = 0; i < kElements; ++i) places[i] = picks.places[i];
  for (std::int64_t r = 0; r < picks.rows; ++r, from += picks.from_step, out += picks.out_step) {
    for (int i = 0; i < kElements; ++i) out[i] = from[places[i]];
  }
}

template <typename T>
void Pick(const RowPicks& picks, const T* from, T* out) {
  switch (picks.n) {
    case 1:
      return PickFew<T, 1>(picks, from, out);
    case 2:
      return PickFew<T, 2>(picks, from, out);
    case 3:
      return PickFew<T, 3>(picks, from, out);
    case 4:
      return PickFew<T, 4>(picks, from, out);
    default:
      break;
  }
  const std::int32_t* __restrict const places = picks.places;
  for (std::int64_t r = 0; r < picks.rows; ++r, from += picks.from_step, out += picks.out_step) {
    const T* __restrict const row = from;
    T* __restrict const to = out;
#pragma GCC unroll 8
    for (std::int64_t i = 0; i < picks.n; ++i) to[i] = row[places[i]];
  }
}

struct Bytes16 {
  std::uint64_t low, high;
};

}  // namespace

void PickRows(const RowPicks& picks, std::size_t size, const void* from, void* out) {
  const auto pick = [&](auto zero) {
    using T = decltype(zero);
    Pick(picks, static_cast<const T*>(from), static_cast<T*>(out));
  };
  switch (size) {
    case 1:
      return pick(std::uint8_t{});
    case 2:
      return pick(std::uint16_t{});
    case 4:
      if (picks.n > 4 && picks.least >= 0 && picks.largest < 2 * kLanes) {
        return PermuteRows(picks, static_cast<const std::int32_t*>(from), static_cast<std::int32_t*>(out));
      }
      return pick(std::uint32_t{});
    case 8:
      return pick(std::uint64_t{});
    default:
      return pick(Bytes16{});
  }
}

}  // namespace ISA_NAMESPACE
}  // namespace ipu_model
