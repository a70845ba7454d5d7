// Strips of direct convolutions on the GEMM register tile: no im2col, the image is read where it lies.
#include <cstdint>

#include "pjrt_plugin/ipu_model/kernels/convolution_strip.h"
#include "pjrt_plugin/ipu_model/kernels/gemm_tile.h"

namespace ipu_model {
namespace ISA_NAMESPACE {
namespace {

// Integer convolutions are rare: fewer tile heights keep the library small.
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
      tile.AccumulatePart(s.run, from, s.a_row, s.a_step, b, s.b_step, s.columns);
    } else if (s.a_step == 1) {
      tile.Accumulate(s.run, from, s.a_row, 1, b, s.b_step);
    } else {
      tile.Accumulate(s.run, from, 1, s.a_step, b, s.b_step);
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

template <typename T>
void MatrixStrip(const ConvolutionStrip<T>& s) {
  if (s.columns <= kLanes<T>) {
    MatrixStripOf<T, 1>(s);
  } else {
    MatrixStripOf<T, 2>(s);
  }
}

constexpr int kChannelwiseRows = 4;

template <typename T, int kRows>
void ChannelwiseTile(const ConvolutionStrip<T>& s, const T* a, T* c) {
  using Vector = typename VectorTypes<T>::Register;
  for (int v = 0; v < kTileVectors; ++v) {
    const int lanes = s.columns - v * kLanes<T>;
    if (lanes <= 0) break;
    const LaneMask<T> mask(lanes);
    Vector sums[kRows];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) sums[r] = Vector{};
    for (std::int64_t i = 0; i < s.num_segments; ++i) {
      const T* from = a + s.segments[i].a + v * kLanes<T>;
      const T* b = s.b + s.segments[i].b + v * kLanes<T>;
      for (std::int64_t k = 0; k < s.run; ++k) {
        const Vector factor = mask.Load(b);
#pragma GCC unroll 4
        for (int r = 0; r < kRows; ++r) sums[r] += mask.Load(from + r * s.a_row) * factor;
        from += s.a_step;
        b += s.b_step;
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      T* to = c + r * s.c_row + v * kLanes<T>;
      mask.Store(to, s.accumulate ? sums[r] + mask.Load(to) : sums[r]);
    }
  }
}

template <typename T>
void ChannelwiseStrip(const ConvolutionStrip<T>& s) {
  for (std::int64_t r = 0; r < s.rows; r += kChannelwiseRows) {
    const std::int64_t rows = s.rows - r < kChannelwiseRows ? s.rows - r : kChannelwiseRows;
    WithRows<kChannelwiseRows>(static_cast<int>(rows), [&](auto constant) {
      ChannelwiseTile<T, decltype(constant)::value>(s, s.a + r * s.a_row, s.c + r * s.c_row);
    });
  }
}

}  // namespace

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
