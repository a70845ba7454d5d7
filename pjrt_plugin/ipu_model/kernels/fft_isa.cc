// Stockham stages of radix 2, 3, 4, 5 and any other.
#include "pjrt_plugin/ipu_model/kernels/fft_loops.h"

namespace ipu_model {
namespace ISA_NAMESPACE {
namespace {

template <typename T>
struct C {
  T re, im;
};
template <typename T>
inline C<T> operator+(C<T> a, C<T> b) {
  return {a.re + b.re, a.im + b.im};
}
template <typename T>
inline C<T> operator-(C<T> a, C<T> b) {
  return {a.re - b.re, a.im - b.im};
}
template <typename T>
inline C<T> operator*(C<T> a, C<T> b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
template <typename T>
inline C<T> Scale(C<T> a, T f) {
  return {a.re * f, a.im * f};
}
// a * -i
template <typename T>
inline C<T> Turn(C<T> a) {
  return {a.im, -a.re};
}

template <typename T, int P>
inline void Butterfly(C<T>* x) {
  if constexpr (P == 2) {
    const C<T> a = x[0], b = x[1];
    x[0] = a + b;
    x[1] = a - b;
  } else if constexpr (P == 3) {
    constexpr T kSine = static_cast<T>(0.86602540378443864676);
    const C<T> sum = x[1] + x[2], turned = Turn(Scale(x[1] - x[2], kSine));
    const C<T> middle = x[0] - Scale(sum, static_cast<T>(0.5));
    x[0] = x[0] + sum;
    x[1] = middle + turned;
    x[2] = middle - turned;
  } else if constexpr (P == 4) {
    const C<T> a = x[0] + x[2], b = x[0] - x[2], c = x[1] + x[3], d = Turn(x[1] - x[3]);
    x[0] = a + c;
    x[1] = b + d;
    x[2] = a - c;
    x[3] = b - d;
  } else {
    constexpr T kC1 = static_cast<T>(0.30901699437494742410), kC2 = static_cast<T>(-0.80901699437494742410);
    constexpr T kS1 = static_cast<T>(0.95105651629515357212), kS2 = static_cast<T>(0.58778525229247312917);
    const C<T> a = x[1] + x[4], b = x[2] + x[3], c = x[1] - x[4], d = x[2] - x[3];
    const C<T> u = x[0] + Scale(a, kC1) + Scale(b, kC2), v = x[0] + Scale(a, kC2) + Scale(b, kC1);
    const C<T> p = Turn(Scale(c, kS1) + Scale(d, kS2)), q = Turn(Scale(c, kS2) - Scale(d, kS1));
    x[0] = x[0] + a + b;
    x[1] = u + p;
    x[2] = v + q;
    x[3] = v - q;
    x[4] = u - p;
  }
}

template <typename T, int P>
void Stage(const FftStage<T>& g) {
  for (std::int64_t j = 0; j < g.m; ++j) {
    C<T> w[P];
    for (int r = 0; r < P; ++r) {
      const std::int64_t t = r * j * g.root_step;
      w[r] = {g.roots_re[t], g.roots_im[t]};
    }
    const T *re = g.in_re + j * g.s, *im = g.in_im + j * g.s;
    T *out_re = g.out_re + j * P * g.s, *out_im = g.out_im + j * P * g.s;
    const std::int64_t step = g.m * g.s;
#pragma GCC ivdep
    for (std::int64_t q = 0; q < g.s; ++q) {
      C<T> x[P];
#pragma GCC unroll 5
      for (int k = 0; k < P; ++k) x[k] = {re[k * step + q], im[k * step + q]};
      Butterfly<T, P>(x);
#pragma GCC unroll 5
      for (int r = 0; r < P; ++r) {
        const C<T> y = r == 0 ? x[0] : x[r] * w[r];
        out_re[r * g.s + q] = y.re;
        out_im[r * g.s + q] = y.im;
      }
    }
  }
}

// Any radix, by the definition.
template <typename T>
void GeneralStage(const FftStage<T>& g) {
  const std::int64_t root = g.n / g.p;  // exp(-2 pi i / p) is number `root` of the table
  for (std::int64_t j = 0; j < g.m; ++j) {
    for (std::int64_t r = 0; r < g.p; ++r) {
      T *out_re = g.out_re + (j * g.p + r) * g.s, *out_im = g.out_im + (j * g.p + r) * g.s;
      for (std::int64_t q = 0; q < g.s; ++q) out_re[q] = out_im[q] = 0;
      for (std::int64_t k = 0; k < g.p; ++k) {
        const std::int64_t t = (k * r % g.p * root + r * j * g.root_step) % g.n;
        const T wr = g.roots_re[t], wi = g.roots_im[t];
        const T *re = g.in_re + (k * g.m + j) * g.s, *im = g.in_im + (k * g.m + j) * g.s;
#pragma GCC ivdep
        for (std::int64_t q = 0; q < g.s; ++q) {
          out_re[q] += re[q] * wr - im[q] * wi;
          out_im[q] += re[q] * wi + im[q] * wr;
        }
      }
    }
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
    default:
      return GeneralStage(stage);
  }
}

}  // namespace

void RunStage(const FftStage<float>& stage) { Run(stage); }
void RunStage(const FftStage<double>& stage) { Run(stage); }

}  // namespace ISA_NAMESPACE
}  // namespace ipu_model
