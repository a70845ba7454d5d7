// Discrete Fourier transforms of any length along one dimension: c64, c128 and their real variants.
#ifndef IPU_MODEL_KERNELS_FFT_FFT_H_
#define IPU_MODEL_KERNELS_FFT_FFT_H_

#include <cstdint>
#include <memory>

#include "kernels/host/context.h"
#include "kernels/host/host_tensor.h"

namespace ipu_model {

struct FftTables;

// The length of the convolution that transforms n complex numbers if n has a large prime factor (Bluestein),
// or 0: the smallest power of two from 2 n - 1.
std::int64_t FftConvolutionLength(std::int64_t n);

// The factors and tables of a transform of one length and precision.
class FftPlan {
 public:
  // `type` is c64 or c128. A real plan transforms between n real numbers and the first n / 2 + 1 elements of
  // their spectrum; the forward direction starts from the real numbers.
  FftPlan(DType type, std::int64_t length, bool real);
  ~FftPlan();
  FftPlan(FftPlan&&) noexcept;

  std::int64_t length() const { return length_; }
  bool real() const { return real_; }
  // Returns the additions and multiplications of one line: 5 n log2 n for a complex transform, by the
  // convention of FFTW's benchmarks.
  double operations() const;

  // out = scale * the unnormalised transform of `in` along dimension `dim`. `out` may be exactly `in` if both
  // are complex.
  void Run(HostContext& context, bool inverse, double scale, int dim, const HostTensor& in,
           const HostTensor& out) const;

 private:
  std::int64_t length_;
  bool real_;
  std::unique_ptr<const FftTables> tables_;
};

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_FFT_FFT_H_
