// What the Python class Executable holds.
#ifndef JAX_IPU_BINDINGS_EXECUTABLE_HANDLE_H_
#define JAX_IPU_BINDINGS_EXECUTABLE_HANDLE_H_

#include <memory>
#include <string>

#include "bindings/bindings.h"
#include "runtime/executable/executable.h"

namespace jax_ipu::bindings {

// Shared ownership: PJRT may keep the data after the Python object is gone.
struct ExecutableHandle {
  std::shared_ptr<const Executable> executable;
};

// The executable with the fields that the keywords name. `poplar_executable` takes the place of the field, if
// it is not empty. Throws Error(kInvalidArgument) where they do not fit together.
ExecutableHandle MakeExecutable(const nb::kwargs& fields, std::string poplar_executable = "");

}  // namespace jax_ipu::bindings

#endif  // JAX_IPU_BINDINGS_EXECUTABLE_HANDLE_H_
