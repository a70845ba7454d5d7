// Sorts of rows that are cut into chunks: each chunk is sorted on its tile, then chunks are merged.
#ifndef IPU_MODEL_OPERATIONS_SORT_CHUNKED_SORT_H_
#define IPU_MODEL_OPERATIONS_SORT_CHUNKED_SORT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/mapping/mapping.h"
#include "core/operation/operation.h"
#include "core/target/target_model.h"
#include "hlo/Expression.hpp"
#include "operations/sort/row_parts.h"

namespace ipu_model {

inline constexpr std::uint64_t kSortVertexBytes = 40;  // pointers, lengths and strides (model estimate)

// Returns the grid for sorting: rows are spread, the sort dimension is cut into parts of equal length
// (the last may be shorter).
Grid SortGrid(const Shape& shape, std::size_t dim, const SortedElement& element, unsigned num_tiles,
              const TargetModel& target);

// Whether all of these lie as `grid` says, so that chunks need no memory beside them.
bool LieAs(const std::vector<View>& views, const Grid& grid, const DeviceContext& context);

// Adds the supersteps that sort the inputs, cut as `grid` says, into `sorted`: a tensor with that
// grid for each input, and at last, with `positions`, one for the positions before the sort (u32 or s32).
void PlanChunkedSort(const Grid& grid, std::size_t dim, const Expression& comparator,
                     const std::vector<OperandRef>& sorted, bool positions, TilePlan* plan);

// Adds the position along `dim` of each element as another operand, behind `in`; `first`: the first position.
void AddPositions(HostContext& context, std::size_t dim, std::int64_t first, std::vector<HostTensor>* in);

// Returns the vertices that copy boxes of the first `operands` temporaries to the outputs.
VertexGroup StoreSorted(const std::vector<Vertex>& vertices, unsigned operands);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_SORT_CHUNKED_SORT_H_
