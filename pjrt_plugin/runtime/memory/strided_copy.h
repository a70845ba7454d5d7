// Copies between a dense row-major array and host memory with any byte strides.
#ifndef JAX_IPU_RUNTIME_MEMORY_STRIDED_COPY_H_
#define JAX_IPU_RUNTIME_MEMORY_STRIDED_COPY_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace jax_ipu {

using Strides = std::vector<std::int64_t>;  // bytes, may be zero or negative

Strides DenseStrides(const std::vector<std::int64_t>& shape, std::size_t element_bytes);
// Strides of a dense array with this order of dimensions, from minor to major.
Strides LayoutStrides(const std::vector<std::int64_t>& shape, std::size_t element_bytes,
                      const std::int64_t* minor_to_major);
// Whether the strides address the elements as a dense row-major array does. Dimensions of one element have no
// stride.
bool IsDense(const std::vector<std::int64_t>& shape, std::size_t element_bytes, const Strides& strides);

// element_bytes is 1, 2, 4, 8 or 16. The memories must not overlap.
void CopyStrided(void* to, const Strides& to_strides, const void* from, const Strides& from_strides,
                 const std::vector<std::int64_t>& shape, std::size_t element_bytes);

}  // namespace jax_ipu

#endif  // JAX_IPU_RUNTIME_MEMORY_STRIDED_COPY_H_
