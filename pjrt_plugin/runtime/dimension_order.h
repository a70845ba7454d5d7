// The order in which the dimensions of an array lie in memory.
#ifndef JAX_IPU_RUNTIME_DIMENSION_ORDER_H_
#define JAX_IPU_RUNTIME_DIMENSION_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace jax_ipu {

// The dimensions from major to minor; empty: row-major.
using DimensionOrder = std::vector<std::int64_t>;

// 0, 1, ..., rank-1.
DimensionOrder RowMajor(std::size_t rank);
// Whether it is empty or names each of `rank` dimensions once.
bool IsOrder(const DimensionOrder& order, std::size_t rank);
// One value for each dimension of the array (sizes, strides), listed as the dimensions lie in memory, and
// back.
std::vector<std::int64_t> InMemory(const std::vector<std::int64_t>& values, const DimensionOrder& order);
std::vector<std::int64_t> FromMemory(const std::vector<std::int64_t>& values, const DimensionOrder& order);

}  // namespace jax_ipu

#endif  // JAX_IPU_RUNTIME_DIMENSION_ORDER_H_
