// Loads, converts and packs matrix panels, and writes tiles in other types. Only for *_isa.cc files.
#ifndef IPU_MODEL_KERNELS_PRODUCT_GEMM_PACK_H_
#define IPU_MODEL_KERNELS_PRODUCT_GEMM_PACK_H_

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/product/gemm_tile.h"
#include "kernels/vector/register_transpose.h"

namespace ipu_model {
namespace ISA_NAMESPACE {

#ifdef __AVX512F__
// The intrinsics without a mask start from an undefined register, for which GCC 12 warns about uninitialised
// use.
constexpr __mmask16 kAllLanes = 0xffff;
#endif

struct Half {
  std::uint16_t bits;
};
struct BrainFloat {
  std::uint16_t bits;
};
// A logical value: stored as 0 or 1, written as "not zero".
struct Logical {
  std::uint8_t value;
};

// Loads kLanes<T> elements from p and converts them.
template <typename T, typename Source>
[[gnu::always_inline]] inline typename VectorTypes<T>::Register LoadConverted(const Source* p) {
  using Vector = typename VectorTypes<T>::Register;
  if constexpr (std::is_same_v<Source, T>) {
    return *reinterpret_cast<const typename VectorTypes<T>::Memory*>(p);
  } else if constexpr (std::is_same_v<Source, Half>) {
#ifdef __AVX512F__
    return reinterpret_cast<Vector>(
        _mm512_maskz_cvtph_ps(kAllLanes, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))));
#else
    return reinterpret_cast<Vector>(_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
#endif
  } else if constexpr (std::is_same_v<Source, BrainFloat>) {
#ifdef __AVX512F__
    const __m512i wide =
        _mm512_maskz_cvtepu16_epi32(kAllLanes, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    return reinterpret_cast<Vector>(_mm512_maskz_slli_epi32(kAllLanes, wide, 16));
#else
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    return reinterpret_cast<Vector>(_mm256_slli_epi32(wide, 16));
#endif
  } else if constexpr (std::is_same_v<Source, Logical>) {
    return LoadConverted<T, std::uint8_t>(reinterpret_cast<const std::uint8_t*>(p));
  } else {
    typedef Source Narrow
        __attribute__((vector_size(kLanes<T> * sizeof(Source)), aligned(sizeof(Source)), may_alias));
    return __builtin_convertvector(*reinterpret_cast<const Narrow*>(p), Vector);
  }
}

// Loads only the first lanes; the others are 0.
template <typename T, typename Source>
[[gnu::always_inline]] inline typename VectorTypes<T>::Register LoadPart(const Source* p, int lanes) {
  if constexpr (std::is_same_v<Source, T>) {
    return LaneMask<T>(lanes).Load(p);
  } else {
    Source part[kLanes<T>] = {};
    std::memcpy(static_cast<void*>(part), p, static_cast<std::size_t>(lanes) * sizeof(Source));
    return LoadConverted<T>(static_cast<const Source*>(part));
  }
}

template <typename T, typename Source>
[[gnu::always_inline]] inline T LoadOne(const Source* p) {
  if constexpr (std::is_same_v<Source, Half>) {
    return static_cast<T>(_cvtsh_ss(p->bits));
  } else if constexpr (std::is_same_v<Source, BrainFloat>) {
    const std::uint32_t bits = std::uint32_t{p->bits} << 16;
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    return static_cast<T>(value);
  } else if constexpr (std::is_same_v<Source, Logical>) {
    return static_cast<T>(p->value);
  } else {
    return static_cast<T>(*p);
  }
}

// panel[i * width + w] = from[w * across + i * along] for i < length and w < valid. Lanes valid <= w < width
// are unspecified (their sums are never stored). Rows are written in order as whole vectors, so the panel
// needs kLanes<T> elements of slack behind its end unless width is a multiple of kLanes<T>.
template <typename T, typename Source>
void PackPanel(const Source* from, std::int64_t across, std::int64_t along, int valid, std::int64_t length,
               int width, T* panel) {
  using Vector = typename VectorTypes<T>::Register;
  using Memory = typename VectorTypes<T>::Memory;
  constexpr int kN = kLanes<T>;
  if (across == 1) {
    const int full = valid / kN * kN;
    for (std::int64_t i = 0; i < length; ++i) {
      const Source* row = from + i * along;
      T* to = panel + i * width;
      int w = 0;
      for (; w < full; w += kN) *reinterpret_cast<Memory*>(to + w) = LoadConverted<T>(row + w);
      if (w < valid) *reinterpret_cast<Memory*>(to + w) = LoadPart<T>(row + w, valid - w);
    }
  } else if (along == 1) {
    // Prefetch: rows a page apart defeat the hardware prefetcher. Measured 1.4x faster on large strides.
    constexpr int kAhead = 256 / static_cast<int>(sizeof(Source));
    for (std::int64_t i = 0; i < length; i += kN) {
      const int count = static_cast<int>(std::min<std::int64_t>(kN, length - i));
      for (int w = 0; w < valid; w += kN) {
        Vector rows[kN];
        if (count == kN) {
#pragma GCC unroll 16
          for (int r = 0; r < kN; ++r) {
            const Source* row = from + std::min(w + r, valid - 1) * across + i;
            __builtin_prefetch(row + kAhead);
            rows[r] = LoadConverted<T>(row);
          }
        } else {
#pragma GCC unroll 16
          for (int r = 0; r < kN; ++r)
            rows[r] = LoadPart<T>(from + std::min(w + r, valid - 1) * across + i, count);
        }
        Transpose<T>(rows);
        T* to = panel + i * width + w;
        if (w > 0 && w + kN > width) {
          // The panel's next row begins inside this vector and is already written, so the store is masked.
          const LaneMask<T> mask(width - w);
          for (int r = 0; r < count; ++r) mask.Store(to + r * width, rows[r]);
          continue;
        }
#pragma GCC unroll 16
        for (int r = 0; r < kN; ++r) {
          if (r < count) *reinterpret_cast<Memory*>(to + r * width) = rows[r];
        }
      }
    }
  } else {
    for (std::int64_t i = 0; i < length; ++i) {
      T* to = panel + i * width;
      for (int w = 0; w < valid; ++w) to[w] = LoadOne<T>(from + w * across + i * along);
    }
  }
}

// Converts one value as StableHLO's convert does (rounds to nearest even, wraps).
template <typename Target, typename T>
[[gnu::always_inline]] inline Target StoreOne(T value) {
  if constexpr (std::is_same_v<Target, Half>) {
    if (RoundsStochastically()) value = RoundStochastically(value);
    return {_cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT)};
  } else if constexpr (std::is_same_v<Target, BrainFloat>) {
    std::uint32_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
    return {static_cast<std::uint16_t>(nan ? (bits >> 16) | 0x40u : rounded)};
  } else if constexpr (std::is_same_v<Target, Logical>) {
    return {static_cast<std::uint8_t>(value != T{} ? 1 : 0)};
  } else {
    return static_cast<Target>(value);
  }
}

// to[r * to_row + j * to_column] = from[r * from_row + j], converted.
template <typename T, typename Target>
void StoreBlock(const T* from, std::int64_t from_row, int rows, int columns, void* to, std::int64_t to_row,
                std::int64_t to_column) {
  Target* out = static_cast<Target*>(to);
  if (to_column == 1) {
    for (int r = 0; r < rows; ++r, from += from_row, out += to_row) {
      int j = 0;
      if constexpr (std::is_same_v<Target, Half>) {
        const int vectorised = RoundsStochastically() ? 0 : columns;
#ifdef __AVX512F__
        for (; j + 16 <= vectorised; j += 16)
          _mm256_storeu_si256(
              reinterpret_cast<__m256i*>(out + j),
              _mm512_maskz_cvtps_ph(kAllLanes, _mm512_loadu_ps(from + j), _MM_FROUND_TO_NEAREST_INT));
#else
        for (; j + 8 <= vectorised; j += 8)
          _mm_storeu_si128(reinterpret_cast<__m128i*>(out + j),
                           _mm256_cvtps_ph(_mm256_loadu_ps(from + j), _MM_FROUND_TO_NEAREST_INT));
#endif
      }
      for (; j < columns; ++j) out[j] = StoreOne<Target>(from[j]);
    }
  } else {
    for (int j = 0; j < columns; ++j) {
      for (int r = 0; r < rows; ++r)
        out[r * to_row + j * to_column] = StoreOne<Target>(from[r * from_row + j]);
    }
  }
}

}  // namespace ISA_NAMESPACE
}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_PRODUCT_GEMM_PACK_H_
