// What the Python class Executable holds.
#ifndef JAX_IPU_BINDINGS_EXECUTABLE_HANDLE_H_
#define JAX_IPU_BINDINGS_EXECUTABLE_HANDLE_H_

#include <memory>

#include "runtime/executable/executable.h"

namespace jax_ipu::bindings {

// Shared ownership: PJRT may keep the data after the Python object is gone.
struct ExecutableHandle {
  std::shared_ptr<const Executable> executable;
};

}  // namespace jax_ipu::bindings

#endif  // JAX_IPU_BINDINGS_EXECUTABLE_HANDLE_H_
