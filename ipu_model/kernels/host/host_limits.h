// Limits on the resources of this machine that the kernels may use.
#ifndef IPU_MODEL_KERNELS_HOST_HOST_LIMITS_H_
#define IPU_MODEL_KERNELS_HOST_HOST_LIMITS_H_

namespace ipu_model {

struct HostLimits {
  bool avx512 = true;  // false: use the AVX2 kernels even if the CPU has AVX-512
  int threads = 0;     // threads of the pool, including the caller; 0: one per CPU that the process may use
  // Whether loops of small operations may become machine code at run time.
  bool machine_code = true;
};

// Returns the limits, which are final from the first call on: kernels and the thread pool keep their choices.
// The default comes from the environment variables JAX_IPU_MAX_ISA, JAX_IPU_HOST_THREADS and
// JAX_IPU_MACHINE_CODE;
// jax_ipu/config.py checks their values.
const HostLimits& FinalHostLimits();

// Replaces the default limits. Returns false if other limits are already final.
bool SetHostLimits(const HostLimits& limits);

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_HOST_HOST_LIMITS_H_
