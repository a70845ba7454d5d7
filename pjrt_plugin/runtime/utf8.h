// Checks that bytes are UTF-8 text.
#ifndef JAX_IPU_RUNTIME_UTF8_H_
#define JAX_IPU_RUNTIME_UTF8_H_

#include <string_view>

namespace jax_ipu {

// Whether the bytes are UTF-8 as the Unicode standard defines it: no overlong forms, no surrogates.
bool IsUtf8(std::string_view bytes);

}  // namespace jax_ipu

#endif  // JAX_IPU_RUNTIME_UTF8_H_
