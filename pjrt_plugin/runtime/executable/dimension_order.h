// The order in which the dimensions of an array lie in memory.
#ifndef JAX_IPU_RUNTIME_EXECUTABLE_DIMENSION_ORDER_H_
#define JAX_IPU_RUNTIME_EXECUTABLE_DIMENSION_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace jax_ipu {

// The dimensions from major to minor; empty: row-major.
using DimensionOrder = std::vector<std::int64_t>;

// 0, 1, ..., rank-1.
DimensionOrder RowMajor(std::size_t rank);
// Whether the order is empty or a permutation of `rank` dimensions.
bool IsOrder(const DimensionOrder& order, std::size_t rank);
// Permutes one value per dimension (sizes, strides) from the array's order to that of memory, and
// back.
std::vector<std::int64_t> InMemory(const std::vector<std::int64_t>& values, const DimensionOrder& order);
std::vector<std::int64_t> FromMemory(const std::vector<std::int64_t>& values, const DimensionOrder& order);

}  // namespace jax_ipu

#endif  // JAX_IPU_RUNTIME_EXECUTABLE_DIMENSION_ORDER_H_
