// The register tile of matrix products: kRows x (kVectors vectors) accumulators that stay in registers. Only
// for files compiled per instruction set (*_isa.cc). GEMM and the direct convolutions are built on it.
//
//   RegisterTile<float, 14, 2> tile;
//   tile.Zero();
//   tile.Accumulate(k, a, /*a_row=*/lda, /*a_step=*/1, b, /*b_step=*/ldb);   // once for each interval of k
//   tile.Store(c, ldc, columns);
//
// Every accumulator is a chain of FMAs in the order of k, so that the result does not depend on how the rows
// and columns are cut into tiles.
#ifndef IPU_MODEL_KERNELS_PRODUCT_GEMM_TILE_H_
#define IPU_MODEL_KERNELS_PRODUCT_GEMM_TILE_H_

#include <immintrin.h>

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "kernels/host/half_rounding.h"
#include "kernels/vector/vector_types.h"

namespace ipu_model {
namespace ISA_NAMESPACE {

#ifdef __AVX512F__
// 28 accumulators, 2 registers of B, and broadcasts of A folded into the FMAs: all 32 registers.
constexpr int kTileRows = 14;
#else
// 12 accumulators, 2 registers of B, and 1-2 broadcasts: all 16 registers.
constexpr int kTileRows = 6;
#endif
constexpr int kTileVectors = 2;

// The columns of the widest tile: 32 floats with AVX-512, 16 with AVX2.
template <typename T>
constexpr int kTileColumns = kTileVectors * kLanes<T>;

// By value: tiles whose sums have an address are not kept in registers.
[[gnu::noinline, gnu::cold]] static VectorTypes<float>::Register StochasticHalf(
    VectorTypes<float>::Register x) {
  float lanes[sizeof(x) / sizeof(float)];
  std::memcpy(lanes, &x, sizeof(x));
  RoundStochastically(lanes, lanes, sizeof(x) / sizeof(float));
  std::memcpy(&x, lanes, sizeof(x));
  return x;
}

// Rounds every lane to f16: to the nearest value, ties to even, or stochastically.
[[gnu::always_inline]] inline VectorTypes<float>::Register NearestHalf(VectorTypes<float>::Register x) {
  if (RoundsStochastically()) return StochasticHalf(x);
#ifdef __AVX512F__
  constexpr __mmask16 kAll = 0xffff;
  return _mm512_maskz_cvtph_ps(kAll, _mm512_maskz_cvtps_ph(kAll, x, _MM_FROUND_TO_NEAREST_INT));
#else
  return _mm256_cvtph_ps(_mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
#endif
}

// Loads and stores the first lanes of a vector; never accesses memory behind them.
template <typename T>
class LaneMask {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "accumulators are 4 or 8 bytes wide");

 public:
  using Vector = typename VectorTypes<T>::Register;

#ifdef __AVX512F__
  // lanes <= 0 selects none, lanes >= the vector's lanes selects all.
  [[gnu::always_inline]] explicit LaneMask(int lanes)
      : mask_(lanes >= kLanes<T> ? 0xffffu
              : lanes <= 0       ? 0u
                                 : (1u << lanes) - 1u) {}
  [[gnu::always_inline]] Vector Load(const T* p) const {
    if constexpr (sizeof(T) == 4) {
      return reinterpret_cast<Vector>(_mm512_maskz_loadu_epi32(static_cast<__mmask16>(mask_), p));
    } else {
      return reinterpret_cast<Vector>(_mm512_maskz_loadu_epi64(static_cast<__mmask8>(mask_), p));
    }
  }
  [[gnu::always_inline]] void Store(T* p, Vector v) const {
    if constexpr (sizeof(T) == 4) {
      _mm512_mask_storeu_epi32(p, static_cast<__mmask16>(mask_), reinterpret_cast<__m512i>(v));
    } else {
      _mm512_mask_storeu_epi64(p, static_cast<__mmask8>(mask_), reinterpret_cast<__m512i>(v));
    }
  }

 private:
  unsigned mask_;
#else
  [[gnu::always_inline]] explicit LaneMask(int lanes) {
    if constexpr (sizeof(T) == 4) {
      mask_ = _mm256_cmpgt_epi32(_mm256_set1_epi32(lanes), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    } else {
      mask_ = _mm256_cmpgt_epi64(_mm256_set1_epi64x(lanes), _mm256_setr_epi64x(0, 1, 2, 3));
    }
  }
  [[gnu::always_inline]] Vector Load(const T* p) const {
    if constexpr (sizeof(T) == 4) {
      return reinterpret_cast<Vector>(_mm256_maskload_epi32(reinterpret_cast<const int*>(p), mask_));
    } else {
      return reinterpret_cast<Vector>(_mm256_maskload_epi64(reinterpret_cast<const long long*>(p), mask_));
    }
  }
  [[gnu::always_inline]] void Store(T* p, Vector v) const {
    if constexpr (sizeof(T) == 4) {
      _mm256_maskstore_epi32(reinterpret_cast<int*>(p), mask_, reinterpret_cast<__m256i>(v));
    } else {
      _mm256_maskstore_epi64(reinterpret_cast<long long*>(p), mask_, reinterpret_cast<__m256i>(v));
    }
  }

 private:
  __m256i mask_;
#endif
};

// T: float, double, or 4- or 8-byte integers.
template <typename T, int kRows, int kVectors>
class RegisterTile {
 public:
  using Vector = typename VectorTypes<T>::Register;
  using Memory = typename VectorTypes<T>::Memory;
  static constexpr int kColumns = kVectors * kLanes<T>;

  [[gnu::always_inline]] void Zero() {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sums_[r][v] = Vector{};
    }
  }

  // sums[r][:] += sum over i < k of a[r * a_row + i * a_step] * b[i * b_step ...]. Packed panels have
  // a_row = 1 and a_step = rows; a row-major matrix has a_row = its leading dimension and a_step = 1. Pass
  // compile-time constants where possible: addressing with a constant row stride needs no registers.
  [[gnu::always_inline]] void Accumulate(std::int64_t k, const T* a, std::int64_t a_row, std::int64_t a_step,
                                         const T* b, std::int64_t b_step) {
    for (std::int64_t i = 0; i < k; ++i) {
      Vector columns[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) columns[v] = *reinterpret_cast<const Memory*>(b + v * kLanes<T>);
      MultiplyAdd(a, a_row, columns);
      a += a_step;
      b += b_step;
    }
  }

  // The same if only the first `columns` of each row of b may be read; the other sums do not change.
  [[gnu::always_inline]] void AccumulatePart(std::int64_t k, const T* a, std::int64_t a_row,
                                             std::int64_t a_step, const T* b, std::int64_t b_step,
                                             int columns_of_b) {
    for (std::int64_t i = 0; i < k; ++i) {
      Vector columns[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v)
        columns[v] = LaneMask<T>(columns_of_b - v * kLanes<T>).Load(b + v * kLanes<T>);
      MultiplyAdd(a, a_row, columns);
      a += a_step;
      b += b_step;
    }
  }

  // Adds the first `columns` of each row of c to the sums.
  [[gnu::always_inline]] void AddFrom(const T* c, std::int64_t c_row, int columns = kColumns) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const LaneMask<T> mask(columns - v * kLanes<T>);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) sums_[r][v] += mask.Load(c + r * c_row + v * kLanes<T>);
    }
  }

  // Rounds every sum to f16.
  [[gnu::always_inline]] void RoundToHalf() {
    static_assert(std::is_same_v<T, float>, "sums in f16 are kept as f32");
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sums_[r][v] = NearestHalf(sums_[r][v]);
    }
  }

  // Writes the first `columns` of each row.
  [[gnu::always_inline]] void Store(T* c, std::int64_t c_row, int columns = kColumns) const {
    if (columns == kColumns) {
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v)
          *reinterpret_cast<Memory*>(c + r * c_row + v * kLanes<T>) = sums_[r][v];
      }
    } else {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        const LaneMask<T> mask(columns - v * kLanes<T>);
#pragma GCC unroll 16
        for (int r = 0; r < kRows; ++r) mask.Store(c + r * c_row + v * kLanes<T>, sums_[r][v]);
      }
    }
  }

 private:
  [[gnu::always_inline]] void MultiplyAdd(const T* a, std::int64_t a_row, const Vector (&columns)[kVectors]) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const T scalar = a[r * a_row];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sums_[r][v] += columns[v] * scalar;
    }
  }

  Vector sums_[kRows][kVectors];
};

// Calls f(std::integral_constant<int, rows>) for 1 <= rows <= kMaxRows, so that the tile height is a
// compile-time constant.
template <int kMaxRows, typename F>
[[gnu::always_inline]] inline void WithRows(int rows, F&& f) {
  if constexpr (kMaxRows == 1) {
    f(std::integral_constant<int, 1>{});
  } else if (rows == kMaxRows) {
    f(std::integral_constant<int, kMaxRows>{});
  } else {
    WithRows<kMaxRows - 1>(rows, std::forward<F>(f));
  }
}

// Returns the height of tiles of nearly equal height <= max_rows that cover m rows: 16 rows are 8 + 8, not
// 14 + 2.
inline std::int64_t BalancedRows(std::int64_t m, std::int64_t max_rows) {
  if (m <= 0) return 1;
  const std::int64_t tiles = (m + max_rows - 1) / max_rows;
  return (m + tiles - 1) / tiles;
}

}  // namespace ISA_NAMESPACE
}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_PRODUCT_GEMM_TILE_H_
