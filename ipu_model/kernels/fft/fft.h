// Discrete Fourier transforms of any length along one dimension: c64, c128 and their real halves.
#ifndef IPU_MODEL_KERNELS_FFT_FFT_H_
#define IPU_MODEL_KERNELS_FFT_FFT_H_

#include <cstdint>
#include <memory>

#include "kernels/host/context.h"
#include "kernels/host/host_tensor.h"

namespace ipu_model {

struct FftTables;

// One length and precision: the factors and tables of its transform.
class FftPlan {
 public:
  // `type` is c64 or c128. A plan of real transforms is between n real numbers and the first n / 2 + 1
  // numbers of their spectrum, forward from the real ones.
  FftPlan(DType type, std::int64_t length, bool real);
  ~FftPlan();
  FftPlan(FftPlan&&) noexcept;

  std::int64_t length() const { return length_; }
  bool real() const { return real_; }
  // Additions and multiplications for one line: 5 n log2 n of a complex transform, the convention of FFTW's
  // benchmarks.
  double operations() const;

  // out = scale * the transform of `in` along dimension `dim`, without a scale of its own. out may be exactly
  // in when both are complex.
  void Run(HostContext& context, bool inverse, double scale, int dim, const HostTensor& in,
           const HostTensor& out) const;

 private:
  std::int64_t length_;
  bool real_;
  std::unique_ptr<const FftTables> tables_;
};

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_FFT_FFT_H_
