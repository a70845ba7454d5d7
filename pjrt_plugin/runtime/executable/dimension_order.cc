#include "runtime/executable/dimension_order.h"

#include <algorithm>
#include <numeric>

namespace jax_ipu {

DimensionOrder RowMajor(std::size_t rank) {
  DimensionOrder order(rank);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

bool IsOrder(const DimensionOrder& order, std::size_t rank) {
  const DimensionOrder all = RowMajor(rank);
  return order.empty() || std::is_permutation(order.begin(), order.end(), all.begin(), all.end());
}

std::vector<std::int64_t> InMemory(const std::vector<std::int64_t>& values, const DimensionOrder& order) {
  std::vector<std::int64_t> moved = values;
  for (std::size_t i = 0; i < order.size(); ++i) moved[i] = values[static_cast<std::size_t>(order[i])];
  return moved;
}

std::vector<std::int64_t> FromMemory(const std::vector<std::int64_t>& values, const DimensionOrder& order) {
  std::vector<std::int64_t> moved = values;
  for (std::size_t i = 0; i < order.size(); ++i) moved[static_cast<std::size_t>(order[i])] = values[i];
  return moved;
}

}  // namespace jax_ipu
