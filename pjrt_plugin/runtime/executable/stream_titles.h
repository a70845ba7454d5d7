// What people call a stream of an executable.
#ifndef JAX_IPU_RUNTIME_EXECUTABLE_STREAM_TITLES_H_
#define JAX_IPU_RUNTIME_EXECUTABLE_STREAM_TITLES_H_

#include <string>
#include <string_view>

#include "runtime/executable/executable.h"

namespace jax_ipu {

// The name of the argument or result that the stream moves ("in0", "out0", "state0", "state0.out"), or the
// stream's own name where that is empty or it moves none. "state0.out" moves the result that replaces
// argument 0.
std::string TitleOfStream(const Executable& executable, std::string_view stream);

}  // namespace jax_ipu

#endif  // JAX_IPU_RUNTIME_EXECUTABLE_STREAM_TITLES_H_
