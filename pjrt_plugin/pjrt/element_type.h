// Conversion between PJRT element types and DType.
#ifndef JAX_IPU_PJRT_ELEMENT_TYPE_H_
#define JAX_IPU_PJRT_ELEMENT_TYPE_H_

#include "ipu_model/Types.hpp"
#include "pjrt/c_api.h"

namespace jax_ipu::pjrt {

// The type that arrays of a PJRT type are stored as. Types that no program can compute with, but that can be
// transferred, are stored as bytes. Throws Error(kUnimplemented) for what is not an array element.
ipu_model::DType StorageType(PJRT_Buffer_Type type);
PJRT_Buffer_Type PjrtType(ipu_model::DType type);
// Elements of less than a byte, which take a byte each.
bool IsSubByte(PJRT_Buffer_Type type);

}  // namespace jax_ipu::pjrt

#endif  // JAX_IPU_PJRT_ELEMENT_TYPE_H_
