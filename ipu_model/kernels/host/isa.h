// Selects the instruction set of the kernels, once per process.
#ifndef IPU_MODEL_KERNELS_HOST_ISA_H_
#define IPU_MODEL_KERNELS_HOST_ISA_H_

#include "kernels/host/host_limits.h"

namespace ipu_model {

// AVX-512 F/BW/CD/DQ/VL (x86-64-v4), unless the host limits exclude it. Otherwise AVX2 and FMA (x86-64-v3),
// which the plugin requires.
inline bool HasAvx512() {
#ifdef IPU_MODEL_WITHOUT_AVX512
  return false;
#else
  static const bool has = FinalHostLimits().avx512 && __builtin_cpu_supports("avx512f") &&
                          __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return has;
#endif
}

}  // namespace ipu_model

// A function that is compiled for each instruction set, or a call of one:
// JAX_IPU_FOR_ISA(CopySegments(from, lines, to)).
#define JAX_IPU_FOR_ISA(call) (HasAvx512() ? avx512::call : avx2::call)

#endif  // IPU_MODEL_KERNELS_HOST_ISA_H_
