// The stages of the Fourier transforms, compiled for each instruction set.
#ifndef IPU_MODEL_KERNELS_FFT_FFT_LOOPS_H_
#define IPU_MODEL_KERNELS_FFT_FFT_LOOPS_H_

#include <cstdint>

namespace ipu_model {

// Prime lengths up to here are transformed by sums of all terms, in half of n^2 multiplications.
constexpr std::int64_t kLargestRadix = 109;

// exp(-2 pi i t / n) for t in [0, n), of which a stage uses every step-th.
template <typename T>
struct FftRoots {
  const T *re, *im;
  std::int64_t n, step;
};

// One Stockham stage of radix p on real and imaginary parts that are apart: the arrays are [p][m][s] in and
// [m][p][s] out.
template <typename T>
struct FftStage {
  std::int64_t p, m, s;
  FftRoots<T> roots;
  const T *in_re, *in_im;
  T *out_re, *out_im;
};

// One stage between `p` spectra of m real numbers each and one of p m. A spectrum of m real numbers is m
// rows: the real part of element 0, real and imaginary parts of elements 1, 2 ..., and for even m the real
// part of element m / 2 (the others are conjugates of these). The arrays are [m][p][s] of the p spectra and
// [p m][s] of the one.
template <typename T>
struct RealFftStage {
  std::int64_t p, m, s;
  FftRoots<T> roots;
  const T* in;
  T* out;
};

namespace avx2 {
void RunStage(const FftStage<float>& stage);
void RunStage(const FftStage<double>& stage);
// From p spectra to one, and back.
void RunJoin(const RealFftStage<float>& stage);
void RunJoin(const RealFftStage<double>& stage);
void RunSplit(const RealFftStage<float>& stage);
void RunSplit(const RealFftStage<double>& stage);
}  // namespace avx2
namespace avx512 {
void RunStage(const FftStage<float>& stage);
void RunStage(const FftStage<double>& stage);
void RunJoin(const RealFftStage<float>& stage);
void RunJoin(const RealFftStage<double>& stage);
void RunSplit(const RealFftStage<float>& stage);
void RunSplit(const RealFftStage<double>& stage);
}  // namespace avx512

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_FFT_FFT_LOOPS_H_
