// Checks that bytes are UTF-8 text.
#ifndef JAX_IPU_RUNTIME_EXECUTABLE_UTF8_H_
#define JAX_IPU_RUNTIME_EXECUTABLE_UTF8_H_

#include <string>
#include <string_view>

namespace jax_ipu {

// Whether the bytes are UTF-8 as the Unicode standard defines it: no overlong forms, no surrogates.
bool IsUtf8(std::string_view bytes);

// The bytes; where they are not UTF-8, with a question mark for each that is not ASCII.
std::string AsUtf8(std::string_view bytes);

}  // namespace jax_ipu

#endif  // JAX_IPU_RUNTIME_EXECUTABLE_UTF8_H_
