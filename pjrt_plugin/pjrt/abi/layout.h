// Layouts of arrays, as the C API names them.
#ifndef JAX_IPU_PJRT_ABI_LAYOUT_H_
#define JAX_IPU_PJRT_ABI_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "pjrt/abi/c_api.h"
#include "runtime/executable/dimension_order.h"
#include "runtime/executable/executable.h"

namespace jax_ipu::pjrt {

// The order that a caller's layout asks for; null is row-major. Throws Error: kUnimplemented for tiled
// layouts and for strides that leave gaps, kInvalidArgument for a wrong rank and for an order that is no
// permutation.
DimensionOrder ReadLayout(const PJRT_Buffer_MemoryLayout* layout, const TensorSpec& array);

// The array as it lies in memory, dense and row-major, and back.
std::shared_ptr<const TensorSpec> SpecInMemory(std::shared_ptr<const TensorSpec> array,
                                               const DimensionOrder& order);
std::shared_ptr<const TensorSpec> SpecFromMemory(std::shared_ptr<const TensorSpec> memory,
                                                 const DimensionOrder& order);

// All dimensions of an array of that rank from minor to major, as XLA lists them.
std::vector<std::int64_t> MinorToMajor(const DimensionOrder& order, std::size_t rank);

}  // namespace jax_ipu::pjrt

#endif  // JAX_IPU_PJRT_ABI_LAYOUT_H_
