// Strips of direct convolutions on the GEMM register tile. There is no im2col: the input is read in place.
#include <cstdint>
#include <type_traits>

#include "kernels/convolution/convolution_strip.h"
#include "kernels/product/gemm_tile.h"
#include "kernels/vector/rounded_product.h"

namespace ipu_model {
namespace ISA_NAMESPACE {
namespace {

// Integer convolutions are rare, so fewer tile heights are instantiated to keep the library small.
template <typename T>
constexpr int kMaxRows = std::is_same_v<T, float> ? kTileRows : 4;

template <typename T, int kRows, int kVectors>
void MatrixTile(const ConvolutionStrip<T>& s, const T* a, T* c) {
  RegisterTile<T, kRows, kVectors> tile;
  tile.Zero();
  const bool whole = s.b_padded || s.columns == kVectors * kLanes<T>;
  for (std::int64_t i = 0; i < s.num_segments; ++i) {
    const T* from = a + s.segments[i].a;
    const T* b = s.b + s.segments[i].b;
    if (!whole) {
      tile.AccumulatePart(s.length, from, s.a_row, s.a_step, b, s.b_step, s.columns);
    } else if (s.a_step == 1) {
      tile.Accumulate(s.length, from, s.a_row, 1, b, s.b_step);
    } else {
      tile.Accumulate(s.length, from, 1, s.a_step, b, s.b_step);
    }
  }
  if (s.accumulate) tile.AddFrom(c, s.c_row, s.columns);
  tile.Store(c, s.c_row, s.columns);
}

template <typename T, int kVectors>
void MatrixStripOf(const ConvolutionStrip<T>& s) {
  const std::int64_t height = BalancedRows(s.rows, kMaxRows<T>);
  for (std::int64_t r = 0; r < s.rows; r += height) {
    const std::int64_t rows = s.rows - r < height ? s.rows - r : height;
    WithRows<kMaxRows<T>>(static_cast<int>(rows), [&](auto constant) {
      MatrixTile<T, decltype(constant)::value, kVectors>(s, s.a + r * s.a_row, s.c + r * s.c_row);
    });
  }
}

constexpr int kVectorRows = 4;

// The products that a VectorTile adds, and their rounding.
enum class Products { kChannelwise, kRoundedChannelwise, kRoundedMatrix };

// Computes kVectors whole vectors of columns, or, with kVectors == 1, the first `columns` < lanes of one
// vector.
template <typename T, Products kProducts, int kRows, int kVectors, bool kWhole>
void VectorTile(const ConvolutionStrip<T>& s, const T* a, const T* b, T* c, int columns) {
  using Vector = typename VectorTypes<T>::Register;
  using Memory = typename VectorTypes<T>::Memory;
  const LaneMask<T> mask(columns);
  const auto load = [&](const T* p) -> Vector {
    return kWhole ? *reinterpret_cast<const Memory*>(p) : mask.Load(p);
  };
  Vector sums[kRows][kVectors];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v)
      sums[r][v] = s.accumulate ? load(c + r * s.c_row + v * kLanes<T>) : Vector{};
  }
  for (std::int64_t i = 0; i < s.num_segments; ++i) {
    const T* from = a + s.segments[i].a;
    const T* factors = b + s.segments[i].b;
    for (std::int64_t k = 0; k < s.length; ++k) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        const Vector factor = load(factors + v * kLanes<T>);
#pragma GCC unroll 4
        for (int r = 0; r < kRows; ++r) {
          const T* const at = from + r * s.a_row;
          if constexpr (kProducts == Products::kRoundedMatrix) {
            sums[r][v] += RoundedProduct(factor, *at);
          } else if constexpr (kProducts == Products::kRoundedChannelwise) {
            sums[r][v] += RoundedProduct(factor, load(at + v * kLanes<T>));
          } else {
            sums[r][v] += load(at + v * kLanes<T>) * factor;
          }
        }
      }
      from += s.a_step;
      factors += s.b_step;
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      T* to = c + r * s.c_row + v * kLanes<T>;
      if (kWhole) {
        *reinterpret_cast<Memory*>(to) = sums[r][v];
      } else {
        mask.Store(to, sums[r][v]);
      }
    }
  }
}

template <typename T, Products kProducts>
void VectorStrip(const ConvolutionStrip<T>& s) {
  for (std::int64_t r = 0; r < s.rows; r += kVectorRows) {
    const std::int64_t rows = s.rows - r < kVectorRows ? s.rows - r : kVectorRows;
    WithRows<kVectorRows>(static_cast<int>(rows), [&](auto constant) {
      constexpr int kRows = decltype(constant)::value;
      // In a channelwise strip, a vector of A belongs to the same columns as the vector of C.
      constexpr int kAStep = kProducts == Products::kRoundedMatrix ? 0 : 1;
      const T* a = s.a + r * s.a_row;
      T* c = s.c + r * s.c_row;
      int j = 0;
      for (; j + 2 * kLanes<T> <= s.columns; j += 2 * kLanes<T>) {
        VectorTile<T, kProducts, kRows, 2, true>(s, a + j * kAStep, s.b + j, c + j, 0);
      }
      for (; j < s.columns; j += kLanes<T>) {
        VectorTile<T, kProducts, kRows, 1, false>(s, a + j * kAStep, s.b + j, c + j, s.columns - j);
      }
    });
  }
}

template <typename T>
void ChannelwiseStrip(const ConvolutionStrip<T>& s) {
  if constexpr (std::is_floating_point_v<T>) {
    if (s.rounded) return VectorStrip<T, Products::kRoundedChannelwise>(s);
  }
  VectorStrip<T, Products::kChannelwise>(s);
}

template <typename T>
void MatrixStrip(const ConvolutionStrip<T>& s) {
  if constexpr (std::is_floating_point_v<T>) {
    if (s.rounded) return VectorStrip<T, Products::kRoundedMatrix>(s);
  }
  if (s.columns <= kLanes<T>) {
    MatrixStripOf<T, 1>(s);
  } else {
    MatrixStripOf<T, 2>(s);
  }
}

}  // namespace

void HalfToFloat(const std::uint16_t* from, float* to, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
  }
  for (; i < n; ++i) to[i] = _cvtsh_ss(from[i]);
}

void FloatToHalf(const float* from, std::uint16_t* to, std::int64_t n) {
  std::int64_t i = 0;
  if (RoundsStochastically()) {
    for (; i < n; ++i) to[i] = _cvtss_sh(RoundStochastically(from[i]), _MM_FROUND_TO_NEAREST_INT);
  }
  for (; i + 8 <= n; i += 8) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
  }
  for (; i < n; ++i) to[i] = _cvtss_sh(from[i], _MM_FROUND_TO_NEAREST_INT);
}

template <typename T>
StripKernels<T> GetStripKernels() {
  return {kMaxRows<T>, kTileColumns<T>, kLanes<T>, MatrixStrip<T>, ChannelwiseStrip<T>};
}
template StripKernels<float> GetStripKernels<float>();
template StripKernels<double> GetStripKernels<double>();
template StripKernels<std::uint32_t> GetStripKernels<std::uint32_t>();
template StripKernels<std::uint64_t> GetStripKernels<std::uint64_t>();

}  // namespace ISA_NAMESPACE
}  // namespace ipu_model
