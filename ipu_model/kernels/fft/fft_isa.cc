// Stockham stages of complex numbers: radix 2, 3, 4, 5, 8 and any other.
#include "kernels/fft/fft_butterfly_isa.h"

namespace ipu_model {
namespace ISA_NAMESPACE {
namespace {

// kTwiddled: multiplies by roots other than 1.
template <typename T, int kRadix, bool kTwiddled>
void Column(const FftStage<T>& g, std::int64_t j) {
  C<T> w[kRadix];
  for (int r = 0; r < kRadix; ++r) w[r] = RootOf(g.roots, r * j * g.roots.step);
  const T *re = g.in_re + j * g.s, *im = g.in_im + j * g.s;
  T *out_re = g.out_re + j * kRadix * g.s, *out_im = g.out_im + j * kRadix * g.s;
  const std::int64_t step = g.m * g.s;
  ForLanes<T>(g.s, [&](std::int64_t q, auto zero) __attribute__((always_inline)) {
    using V = decltype(zero);
    C<V> x[kRadix];
#pragma GCC unroll 8
    for (int k = 0; k < kRadix; ++k)
      x[k] = {LoadLanes<V>(re + k * step + q), LoadLanes<V>(im + k * step + q)};
    Butterfly<T, kRadix>(x);
#pragma GCC unroll 8
    for (int r = 0; r < kRadix; ++r) {
      const C<V> y = kTwiddled && r > 0 ? Rotate(x[r], w[r]) : x[r];
      StoreLanes(out_re + r * g.s + q, y.re);
      StoreLanes(out_im + r * g.s + q, y.im);
    }
  });
}

template <typename T, int kRadix>
void Stage(const FftStage<T>& g) {
  Column<T, kRadix, false>(g, 0);
  for (std::int64_t j = 1; j < g.m; ++j) Column<T, kRadix, true>(g, j);
}

template <typename T>
void GeneralStage(const FftStage<T>& g) {
  const std::int64_t step = g.m * g.s, group = g.p <= 11 ? 1 : 2;
  for (std::int64_t j = 0; j < g.m; ++j) {
    const T *re = g.in_re + j * g.s, *im = g.in_im + j * g.s;
    T *out_re = g.out_re + j * g.p * g.s, *out_im = g.out_im + j * g.p * g.s;
    ForLanes<T>(g.s, [&](std::int64_t q, auto zero) {
      using V = decltype(zero);
      C<V> x[kLargestRadix];
      for (std::int64_t k = 0; k < g.p; ++k)
        x[k] = {LoadLanes<V>(re + k * step + q), LoadLanes<V>(im + k * step + q)};
      GeneralButterfly(g.roots, g.p, group, x);
      for (std::int64_t r = 0; r < g.p; ++r) {
        const C<V> y = j > 0 && r > 0 ? Rotate(x[r], RootOf(g.roots, r * j * g.roots.step)) : x[r];
        StoreLanes(out_re + r * g.s + q, y.re);
        StoreLanes(out_im + r * g.s + q, y.im);
      }
    });
  }
}

template <typename T>
void Run(const FftStage<T>& stage) {
  switch (stage.p) {
    case 2:
      return Stage<T, 2>(stage);
    case 3:
      return Stage<T, 3>(stage);
    case 4:
      return Stage<T, 4>(stage);
    case 5:
      return Stage<T, 5>(stage);
    case 8:
      return Stage<T, 8>(stage);
    default:
      return GeneralStage(stage);
  }
}

}  // namespace

void RunStage(const FftStage<float>& stage) { Run(stage); }
void RunStage(const FftStage<double>& stage) { Run(stage); }

}  // namespace ISA_NAMESPACE
}  // namespace ipu_model
