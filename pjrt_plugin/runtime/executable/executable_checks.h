// Checks of an executable before it is used: executables are read from files and caches, which may be damaged
// or hostile.
#ifndef JAX_IPU_RUNTIME_EXECUTABLE_EXECUTABLE_CHECKS_H_
#define JAX_IPU_RUNTIME_EXECUTABLE_EXECUTABLE_CHECKS_H_

#include <string>

#include "ipu_model/Stored.hpp"
#include "runtime/executable/executable.h"

namespace jax_ipu {

// No system has more IPUs.
inline constexpr int kMaxReplicas = 1024;

// Why the parts of an executable do not fit together, or an empty string.
std::string FindProblem(const Executable& executable);

// Why the executable does not describe the program that it holds, or an empty string: the streams of its
// inputs and outputs, what its programs move and use, its host functions and its replicas.
std::string FindProblem(const Executable& executable, const ipu_model::ProgramInterface& program);

}  // namespace jax_ipu

#endif  // JAX_IPU_RUNTIME_EXECUTABLE_EXECUTABLE_CHECKS_H_
