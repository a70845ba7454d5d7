// Loads bytes as an executable and, if they are valid, runs it on zeros, as PJRT would.
#ifndef JAX_IPU_FUZZ_RUN_EXECUTABLE_H_
#define JAX_IPU_FUZZ_RUN_EXECUTABLE_H_

#include <string>
#include <string_view>

namespace jax_ipu::fuzz {

enum class Outcome {
  kRefused,   // when it was read
  kTooLarge,  // not run: it would take much memory or time, which is no defect
  kFailed,    // when it was run, with an error
  kCompleted
};

// `content`: a serialised executable without its header.
Outcome RunContent(std::string_view content);

// The content of a serialised executable with its header.
std::string ContentOf(std::string_view executable);

}  // namespace jax_ipu::fuzz

#endif  // JAX_IPU_FUZZ_RUN_EXECUTABLE_H_
