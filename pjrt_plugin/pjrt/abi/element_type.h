// Conversion between PJRT element types and DType.
#ifndef JAX_IPU_PJRT_ABI_ELEMENT_TYPE_H_
#define JAX_IPU_PJRT_ABI_ELEMENT_TYPE_H_

#include "ipu_model/Types.hpp"
#include "pjrt/abi/c_api.h"

namespace jax_ipu::pjrt {

// The type as which arrays of a PJRT type are stored: bytes for types that can be transferred but not
// computed with. Throws Error(kUnimplemented) for a type that is not one of array elements.
ipu_model::DType StorageType(PJRT_Buffer_Type type);
PJRT_Buffer_Type PjrtType(ipu_model::DType type);
// Whether elements have less than 8 bits; each is stored in a byte of its own.
bool IsSubByte(PJRT_Buffer_Type type);

}  // namespace jax_ipu::pjrt

#endif  // JAX_IPU_PJRT_ABI_ELEMENT_TYPE_H_
