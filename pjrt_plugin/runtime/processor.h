// Whether this processor has the instructions that the kernels are compiled for.
#ifndef JAX_IPU_RUNTIME_PROCESSOR_H_
#define JAX_IPU_RUNTIME_PROCESSOR_H_

#include <string>

namespace jax_ipu {

// What to tell the user; empty: the processor has all instructions that the plugin needs. Called before any
// kernel runs. The environment variable JAX_IPU_MAX_ISA=sse2 makes any processor one without AVX2, for tests.
std::string MissingInstructions();

}  // namespace jax_ipu

#endif  // JAX_IPU_RUNTIME_PROCESSOR_H_
