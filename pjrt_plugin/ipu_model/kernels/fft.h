// Discrete Fourier transforms of any length along one dimension: c64, c128 and their real halves.
#ifndef JAX_IPU_KERNELS_FFT_H_
#define JAX_IPU_KERNELS_FFT_H_

#include <cstdint>
#include <memory>

#include "pjrt_plugin/ipu_model/kernels/context.h"
#include "pjrt_plugin/ipu_model/kernels/host_tensor.h"

namespace ipu_model {

struct FftTables;

// One length and precision: the factors and tables of its transform.
class FftPlan {
 public:
  // `type` is c64 or c128.
  FftPlan(DType type, std::int64_t length);
  ~FftPlan();
  FftPlan(FftPlan&&) noexcept;

  std::int64_t length() const { return length_; }

  // out = the transform of `in` along dimension `dim`; the inverse is scaled by 1 / length.
  //  - in real: of real numbers. in complex but shorter than length: the first length / 2 + 1 of a spectrum
  //    whose other half is conjugate (then out is real).
  //  - out complex: as many of the results as it is long (length, or length / 2 + 1). out real: real parts.
  // out may be exactly in when both are complex and of full length.
  void Run(HostContext& context, bool inverse, int dim, const HostTensor& in, const HostTensor& out) const;

 private:
  DType type_;
  std::int64_t length_;
  std::unique_ptr<const FftTables> tables_;
};

}  // namespace ipu_model

#endif  // JAX_IPU_KERNELS_FFT_H_
