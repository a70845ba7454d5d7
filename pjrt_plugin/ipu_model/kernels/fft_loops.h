// The stages of the Fourier transform, compiled for each instruction set. Real and imaginary parts are apart.
#ifndef JAX_IPU_KERNELS_FFT_LOOPS_H_
#define JAX_IPU_KERNELS_FFT_LOOPS_H_

#include <cstdint>

namespace ipu_model {

// One Stockham stage of radix p: the arrays are [p][m][s] in and [m][p][s] out, `roots` holds exp(-2 pi i t /
// n) for t in [0, n), and the stage's n / (p m) = root_step.
template <typename T>
struct FftStage {
  std::int64_t p, m, s, root_step, n;
  const T *roots_re, *roots_im;
  const T *in_re, *in_im;
  T *out_re, *out_im;
};

namespace avx2 {
void RunStage(const FftStage<float>& stage);
void RunStage(const FftStage<double>& stage);
}  // namespace avx2
namespace avx512 {
void RunStage(const FftStage<float>& stage);
void RunStage(const FftStage<double>& stage);
}  // namespace avx512

}  // namespace ipu_model

#endif  // JAX_IPU_KERNELS_FFT_LOOPS_H_
