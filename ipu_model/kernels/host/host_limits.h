// What of this machine the kernels may use.
#ifndef IPU_MODEL_KERNELS_HOST_HOST_LIMITS_H_
#define IPU_MODEL_KERNELS_HOST_HOST_LIMITS_H_

namespace ipu_model {

struct HostLimits {
  bool avx512 = true;  // false: kernels for AVX2 also where the CPU has AVX-512
  int threads = 0;     // of the pool, the caller's included; 0: one for each CPU that the process may use
};

// Final from the first call on: kernels and the thread pool keep what they have chosen. The default is that
// of the environment variables JAX_IPU_MAX_ISA and JAX_IPU_HOST_THREADS; jax_ipu/config.py checks their
// values.
const HostLimits& FinalHostLimits();

// In place of the default. False when the limits are final and others.
bool SetHostLimits(const HostLimits& limits);

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_HOST_HOST_LIMITS_H_
