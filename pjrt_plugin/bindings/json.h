// Python: JSON text of dictionaries, lists and numbers.
#ifndef JAX_IPU_BINDINGS_JSON_H_
#define JAX_IPU_BINDINGS_JSON_H_

#include "bindings/bindings.h"

namespace jax_ipu::bindings {

void BindJson(nb::module_& module);

}  // namespace jax_ipu::bindings

#endif  // JAX_IPU_BINDINGS_JSON_H_
