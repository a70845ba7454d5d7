// The checks of which Operation::OperandsFit implementations consist.
#ifndef IPU_MODEL_CORE_OPERATION_OPERAND_CHECK_H_
#define IPU_MODEL_CORE_OPERATION_OPERAND_CHECK_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "core/mapping/mapping.h"
#include "core/operation/operation.h"

namespace ipu_model {

inline bool HasOperands(const Operation& operation, std::size_t inputs, std::size_t outputs) {
  return operation.inputs.size() == inputs && operation.outputs.size() == outputs;
}

inline bool SameShapes(const std::vector<View>& views, std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i) {
    if (views[i].shape != views[begin].shape) return false;
  }
  return true;
}

inline bool IsScalar(const View& view) { return view.num_elements() == 1; }

// Whether the numbers can be multiplied with room to spare.
inline bool IsModest(std::initializer_list<std::int64_t> factors) {
  double product = 1;
  for (const std::int64_t factor : factors) product *= static_cast<double>(factor < 0 ? -factor : factor);
  return product < 1e17;
}

// A grid of work among the tiles that there are, in a number of parts that can be listed.
inline bool IsSplitOf(const Grid& grid, const Shape& shape, unsigned num_tiles) {
  double parts = 1;
  for (const std::int64_t p : grid.parts) parts *= static_cast<double>(p);
  return grid.shape == shape && grid.num_tiles <= num_tiles &&
         parts <= 1024.0 * static_cast<double>(num_tiles);
}

}  // namespace ipu_model

#endif  // IPU_MODEL_CORE_OPERATION_OPERAND_CHECK_H_
