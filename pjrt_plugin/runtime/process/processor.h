// Whether this processor has the instructions that the kernels are compiled for.
#ifndef JAX_IPU_RUNTIME_PROCESS_PROCESSOR_H_
#define JAX_IPU_RUNTIME_PROCESS_PROCESSOR_H_

#include <string>

namespace jax_ipu {

// Returns an error message, or an empty string if the processor has all instructions that the plugin needs.
// Called before any kernel runs. For tests, the environment variable JAX_IPU_MAX_ISA=sse2 makes any processor
// count as one without AVX2.
std::string MissingInstructions();

}  // namespace jax_ipu

#endif  // JAX_IPU_RUNTIME_PROCESS_PROCESSOR_H_
