// For tests of gather and scatter: their dimension numbers in one line.
#ifndef HLO_TESTING_WINDOW_DIMS_H_
#define HLO_TESTING_WINDOW_DIMS_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "hlo/WindowDims.hpp"

namespace hlo::testing {

// `offset` and `collapsed`: of a scatter, the window's dimensions of the updates and the inserted ones.
inline WindowDims Dims(std::vector<std::int64_t> offset, std::vector<std::int64_t> collapsed,
                       std::vector<std::int64_t> start, std::int64_t vector_dim,
                       std::vector<std::int64_t> batching = {},
                       std::vector<std::int64_t> indices_batching = {},
                       std::vector<std::int64_t> wraps = {}) {
  WindowDims dims;
  dims.offset_dims = std::move(offset);
  dims.collapsed_dims = std::move(collapsed);
  dims.operand_batching_dims = std::move(batching);
  dims.indices_batching_dims = std::move(indices_batching);
  dims.start_index_map = std::move(start);
  dims.index_vector_dim = vector_dim;
  dims.wraps = std::move(wraps);
  return dims;
}

}  // namespace hlo::testing

#endif  // HLO_TESTING_WINDOW_DIMS_H_
