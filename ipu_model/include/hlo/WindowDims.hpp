// The dimension numbers of gather and scatter. Plain declarations: kernels include this header as well.
// Source: the StableHLO specification, gather and scatter.
#ifndef HLO_WINDOWDIMS_HPP
#define HLO_WINDOWDIMS_HPP

#include <cstdint>
#include <vector>

namespace hlo {

// Names of gather. Scatter calls the first, second and fifth update_window_dims, inserted_window_dims and
// scatter_dims_to_operand_dims.
struct WindowDims {
  std::vector<std::int64_t> offset_dims;
  std::vector<std::int64_t> collapsed_dims;
  std::vector<std::int64_t> operand_batching_dims;
  std::vector<std::int64_t> indices_batching_dims;
  std::vector<std::int64_t> start_index_map;
  std::int64_t index_vector_dim = 0;
  // For each index component, the number that is added to a negative index before anything else. Empty:
  // zeros.
  std::vector<std::int64_t> wraps;
};

}  // namespace hlo

#endif  // HLO_WINDOWDIMS_HPP
