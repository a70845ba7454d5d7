// PJRT_Error: a status code and a message.
#ifndef JAX_IPU_PJRT_ABI_ERROR_H_
#define JAX_IPU_PJRT_ABI_ERROR_H_

#include <string>

#include "pjrt/abi/c_api.h"
#include "runtime/executable/executable.h"

struct PJRT_Error {
  const void* function_table = nullptr;  // newer callers look here; null: use the functions of the API table
  jax_ipu::Code code;
  std::string message;
};

namespace jax_ipu::pjrt {

// Never throws: when memory is exhausted, returns a preallocated error.
PJRT_Error* MakeError(const Error& error) noexcept;
// For OnReady callbacks: returns null for null.
PJRT_Error* MakeError(const Error* error) noexcept;

void DestroyError(PJRT_Error* error) noexcept;

void InstallError(PJRT_Api& api);

}  // namespace jax_ipu::pjrt

#endif  // JAX_IPU_PJRT_ABI_ERROR_H_
