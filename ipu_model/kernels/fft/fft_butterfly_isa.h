// Forward transforms of a few complex numbers, for single numbers or vectors of lanes. Only for *_isa.cc
// files.
//
// Every product is rounded, and terms are added in the order of FFTPACK (Swarztrauber, 1982), from which
// XLA:CPU's transforms descend. Where the factors of a length and its roots are the same, the bits are the
// same.
#ifndef IPU_MODEL_KERNELS_FFT_FFT_BUTTERFLY_ISA_H_
#define IPU_MODEL_KERNELS_FFT_FFT_BUTTERFLY_ISA_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/fft/fft_loops.h"
#include "kernels/product/gemm_tile.h"
#include "kernels/vector/rounded_product.h"

namespace ipu_model::ISA_NAMESPACE {

// A complex number. V is a floating-point type or a vector of it.
template <typename V>
struct C {
  V re, im;
};
template <typename V>
[[gnu::always_inline]] inline C<V> operator+(C<V> a, C<V> b) {
  return {a.re + b.re, a.im + b.im};
}
template <typename V>
[[gnu::always_inline]] inline C<V> operator-(C<V> a, C<V> b) {
  return {a.re - b.re, a.im - b.im};
}
template <typename V, typename T>
[[gnu::always_inline]] inline C<V> Scale(C<V> a, T f) {
  return {RoundedProduct(a.re, f), RoundedProduct(a.im, f)};
}
template <typename V, typename T>
[[gnu::always_inline]] inline C<V> Rotate(C<V> a, C<T> w) {
  return {RoundedProduct(a.re, w.re) - RoundedProduct(a.im, w.im),
          RoundedProduct(a.re, w.im) + RoundedProduct(a.im, w.re)};
}
// a * -i.
template <typename V>
[[gnu::always_inline]] inline C<V> Turn(C<V> a) {
  return {a.im, -a.re};
}

template <typename T>
C<T> RootOf(const FftRoots<T>& roots, std::int64_t t) {
  return {roots.re[t], roots.im[t]};
}

// A vector of whole registers, or of a half or a quarter of one.
template <typename T, std::size_t kBytes>
struct LanesOf {
  typedef T Register __attribute__((vector_size(kBytes)));
  typedef T Memory __attribute__((vector_size(kBytes), aligned(sizeof(T)), may_alias));
};
template <typename T, std::size_t kBytes>
using LanesInMemory = typename LanesOf<T, kBytes>::Memory;

template <typename V, typename T>
[[gnu::always_inline]] inline V LoadLanes(const T* p) {
  if constexpr (std::is_same_v<V, T>) {
    return *p;
  } else {
    return *reinterpret_cast<const LanesInMemory<T, sizeof(V)>*>(p);
  }
}
template <typename V, typename T>
[[gnu::always_inline]] inline void StoreLanes(T* p, V v) {
  if constexpr (std::is_same_v<V, T>) {
    *p = v;
  } else {
    *reinterpret_cast<LanesInMemory<T, sizeof(V)>*>(p) = v;
  }
}

// Calls f(q, zero) for vectors from q on, then for halves of them (a few lines, or the end of a row), then
// for single numbers; `zero` is a V.
template <typename T, std::size_t kBytes = kVectorBytes, typename F>
[[gnu::always_inline]] inline void ForLanes(std::int64_t count, F&& f, std::int64_t q = 0) {
  if constexpr (kBytes >= 16) {
    constexpr auto kNumbers = static_cast<std::int64_t>(kBytes / sizeof(T));
    for (; q + kNumbers <= count; q += kNumbers) f(q, typename LanesOf<T, kBytes>::Register{});
    ForLanes<T, kBytes / 2>(count, f, q);
  } else {
    for (; q < count; ++q) f(q, T{});
  }
}

template <typename T, int kRadix, typename V>
[[gnu::always_inline]] inline void Butterfly(C<V>* x) {
  if constexpr (kRadix == 2) {
    const C<V> a = x[0], b = x[1];
    x[0] = a + b;
    x[1] = a - b;
  } else if constexpr (kRadix == 3) {
    constexpr T kSine = static_cast<T>(0.86602540378443864676);
    const C<V> sum = x[1] + x[2], turned = Turn(Scale(x[1] - x[2], kSine));
    const C<V> middle = x[0] - Scale(sum, static_cast<T>(0.5));
    x[0] = x[0] + sum;
    x[1] = middle + turned;
    x[2] = middle - turned;
  } else if constexpr (kRadix == 4) {
    const C<V> a = x[0] + x[2], b = x[0] - x[2], c = x[1] + x[3], d = Turn(x[1] - x[3]);
    x[0] = a + c;
    x[1] = b + d;
    x[2] = a - c;
    x[3] = b - d;
  } else if constexpr (kRadix == 5) {
    constexpr T kC1 = static_cast<T>(0.30901699437494742410), kC2 = static_cast<T>(-0.80901699437494742410);
    constexpr T kS1 = static_cast<T>(0.95105651629515357212), kS2 = static_cast<T>(0.58778525229247312917);
    const C<V> a = x[1] + x[4], b = x[2] + x[3], c = x[1] - x[4], d = x[2] - x[3];
    const C<V> u = x[0] + Scale(a, kC1) + Scale(b, kC2), v = x[0] + Scale(a, kC2) + Scale(b, kC1);
    const C<V> p = Turn(Scale(c, kS1) + Scale(d, kS2)), q = Turn(Scale(c, kS2) - Scale(d, kS1));
    x[0] = x[0] + a + b;
    x[1] = u + p;
    x[2] = v + q;
    x[3] = v - q;
    x[4] = u - p;
  } else {
    static_assert(kRadix == 8);
    constexpr T kHalfRoot = static_cast<T>(0.70710678118654752440);
    C<V> even[4] = {x[0], x[2], x[4], x[6]};
    Butterfly<T, 4>(even);
    const C<V> a = x[1] + x[5], b = x[1] - x[5], c = x[3] + x[7], d = Turn(x[3] - x[7]);
    const C<V> sum = b + d, difference = b - d;
    // Multiplies by exp(-pi i / 4) and exp(-3 pi i / 4).
    const C<V> odd[4] = {
        a + c,
        {RoundedProduct(sum.re + sum.im, kHalfRoot), RoundedProduct(sum.im - sum.re, kHalfRoot)},
        Turn(a - c),
        {RoundedProduct(difference.im - difference.re, kHalfRoot),
         RoundedProduct(-difference.re - difference.im, kHalfRoot)}};
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      x[i] = even[i] + odd[i];
      x[i + 4] = even[i] - odd[i];
    }
  }
}

// The butterfly of any odd radix p >= 7: weights sums and differences of the terms k and p - k by cosines and
// sines. After the first two, terms are added `group` at a time, and then in halved groups when fewer are
// left.
template <typename V, typename T>
inline void GeneralButterfly(const FftRoots<T>& roots, std::int64_t p, std::int64_t group, C<V>* x) {
  const std::int64_t half = (p - 1) / 2, root = roots.n / p;
  C<V> y[kLargestRadix];
  y[0] = x[0];
  for (std::int64_t k = 1; k <= half; ++k) {
    const C<V> a = x[k], b = x[p - k];
    x[k] = a + b;
    x[p - k] = a - b;
    y[0] = y[0] + x[k];
  }
  for (std::int64_t r = 1; r <= half; ++r) {
    const auto of = [&](std::int64_t k) { return RootOf(roots, k * r % p * root); };
    const C<T> first = of(1), second = of(2);
    C<V> even = x[0] + Scale(x[1], first.re) + Scale(x[2], second.re);
    C<V> odd = Scale(x[p - 1], first.im) + Scale(x[p - 2], second.im);
    std::int64_t size = group;
    for (std::int64_t k = 3; k <= half; k += size) {
      while (k + size - 1 > half) size /= 2;
      C<T> w = of(k);
      C<V> cosines = Scale(x[k], w.re), sines = Scale(x[p - k], w.im);
      for (std::int64_t i = k + 1; i < k + size; ++i) {
        w = of(i);
        cosines = cosines + Scale(x[i], w.re);
        sines = sines + Scale(x[p - i], w.im);
      }
      even = even + cosines;
      odd = odd + sines;
    }
    odd = Turn(odd);
    y[r] = even - odd;
    y[p - r] = even + odd;
  }
  for (std::int64_t r = 0; r < p; ++r) x[r] = y[r];
}

}  // namespace ipu_model::ISA_NAMESPACE

#endif  // IPU_MODEL_KERNELS_FFT_FFT_BUTTERFLY_ISA_H_
