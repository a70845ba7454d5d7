// Tile mappings of tensors that are indexed with run-time values: indexed dimensions are whole on each tile,
// the others are spread.
#ifndef IPU_MODEL_OPERATIONS_INDEX_SLICE_GRID_H_
#define IPU_MODEL_OPERATIONS_INDEX_SLICE_GRID_H_

#include <cstdint>
#include <vector>

#include "core/mapping/mapping.h"
#include "ipu_model/Types.hpp"

namespace ipu_model {

// Spreads the dimensions that are not `sliced` over up to `num_tiles` tiles (the innermost dimension in
// grains of 8 bytes): outermost first, unless other parts make the largest block much smaller. Sliced
// dimensions stay whole unless a tile would hold more than `max_bytes`; then the longest one is cut into the
// fewest parts that fit.
Grid SliceGrid(const Shape& shape, const std::vector<bool>& sliced, DType type, unsigned num_tiles,
               std::int64_t max_bytes);

// Spreads all dimensions.
Grid SpreadGrid(const Shape& shape, DType type, unsigned num_tiles);

// Returns the limit, in bytes of a tile's memory, for one operand of an indexing vertex.
std::int64_t SliceBudget(std::int64_t bytes_per_tile);

// Returns the limit, in bytes of a tile's memory, for the buffers of one of several steps. A sync is short
// compared with the exchange of the buffers. More than kMostIndexingSteps steps do not save enough memory to
// pay.
std::int64_t StepBudget(std::int64_t bytes_per_tile);
inline constexpr std::size_t kMostIndexingSteps = 64;
// The same where a program would not fit otherwise.
inline constexpr std::size_t kMostLimitedSteps = 2048;

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_INDEX_SLICE_GRID_H_
