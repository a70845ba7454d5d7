// The functions that read operations back from a serialised executable; one line per kind in registry.cc.
#ifndef JAX_IPU_OPERATIONS_READERS_H_
#define JAX_IPU_OPERATIONS_READERS_H_

#include <memory>

#include "pjrt_plugin/ipu_model/core/operation.h"

namespace ipu_model {}  // namespace ipu_model

#endif  // JAX_IPU_OPERATIONS_READERS_H_
