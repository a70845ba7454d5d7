// The stages of the Fourier transforms, compiled per instruction set.
#ifndef IPU_MODEL_KERNELS_FFT_FFT_LOOPS_H_
#define IPU_MODEL_KERNELS_FFT_FFT_LOOPS_H_

#include <cstdint>

namespace ipu_model {

// Prime lengths up to this one are transformed by direct summation, in half of n^2 multiplications.
constexpr std::int64_t kLargestRadix = 109;

// exp(-2 pi i t / n) for t in [0, n). A stage uses every step-th root.
template <typename T>
struct FftRoots {
  const T *re, *im;
  std::int64_t n, step;
};

// One Stockham stage of radix p, with separate real and imaginary arrays: [p][m][s] in, [m][p][s] out.
template <typename T>
struct FftStage {
  std::int64_t p, m, s;
  FftRoots<T> roots;
  const T *in_re, *in_im;
  T *out_re, *out_im;
};

// One stage between p spectra of m real numbers each and one spectrum of p m real numbers. A spectrum of m
// real numbers has m rows: the real part of element 0, real and imaginary parts of elements 1, 2, ..., and
// for even m the real part of element m / 2. The other elements are their conjugates. The p spectra are an
// array [m][p][s], the one spectrum is an array [p m][s].
template <typename T>
struct RealFftStage {
  std::int64_t p, m, s;
  FftRoots<T> roots;
  const T* in;
  T* out;
};

// How lines of a tensor lie outside and inside. `parts`: numbers per element outside, 2 for complex; `step`:
// numbers from one element of a line to the next. Inside, the numbers of `count` lines are the arrays
// [n][count] of real and of imaginary parts, or, without `im`, one array [parts * n][count].
template <typename T>
struct FftLines {
  std::int64_t parts, step, count;
  T *re, *im;
};

namespace avx2 {
void RunStage(const FftStage<float>& stage);
void RunStage(const FftStage<double>& stage);
// RunJoin: from p spectra to one. RunSplit: the inverse.
void RunJoin(const RealFftStage<float>& stage);
void RunJoin(const RealFftStage<double>& stage);
void RunSplit(const RealFftStage<float>& stage);
void RunSplit(const RealFftStage<double>& stage);
// Moves elements [0, n) of every line; line l begins at from[l] or to[l].
void LoadLines(const FftLines<float>& lines, const float* const* from, std::int64_t n);
void LoadLines(const FftLines<double>& lines, const double* const* from, std::int64_t n);
void StoreLines(const FftLines<float>& lines, float* const* to, std::int64_t n);
void StoreLines(const FftLines<double>& lines, double* const* to, std::int64_t n);
void ScaleNumbers(float scale, std::int64_t n, float* numbers);
void ScaleNumbers(double scale, std::int64_t n, double* numbers);
}  // namespace avx2
namespace avx512 {
void RunStage(const FftStage<float>& stage);
void RunStage(const FftStage<double>& stage);
void RunJoin(const RealFftStage<float>& stage);
void RunJoin(const RealFftStage<double>& stage);
void RunSplit(const RealFftStage<float>& stage);
void RunSplit(const RealFftStage<double>& stage);
void LoadLines(const FftLines<float>& lines, const float* const* from, std::int64_t n);
void LoadLines(const FftLines<double>& lines, const double* const* from, std::int64_t n);
void StoreLines(const FftLines<float>& lines, float* const* to, std::int64_t n);
void StoreLines(const FftLines<double>& lines, double* const* to, std::int64_t n);
void ScaleNumbers(float scale, std::int64_t n, float* numbers);
void ScaleNumbers(double scale, std::int64_t n, double* numbers);
}  // namespace avx512

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_FFT_FFT_LOOPS_H_
