// What the Python class Executable holds.
#ifndef JAX_IPU_BINDINGS_EXECUTABLE_HANDLE_H_
#define JAX_IPU_BINDINGS_EXECUTABLE_HANDLE_H_

#include <memory>

#include "runtime/executable.h"

namespace jax_ipu::bindings {

// The data outlives the Python object when PJRT keeps it.
struct ExecutableHandle {
  std::shared_ptr<const Executable> executable;
};

}  // namespace jax_ipu::bindings

#endif  // JAX_IPU_BINDINGS_EXECUTABLE_HANDLE_H_
