// How window operations are divided among tiles: parts of the result, with halos of the operand.
#ifndef IPU_MODEL_OPERATIONS_WINDOW_WINDOW_PLAN_H_
#define IPU_MODEL_OPERATIONS_WINDOW_WINDOW_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/graph/graph_impl.h"
#include "core/mapping/mapping.h"
#include "core/operation/operation.h"
#include "core/operation/serialise.h"
#include "hlo/Window.hpp"
#include "kernels/window/window.h"

namespace ipu_model {

struct TargetModel;

// Returns the grid of `shape` for up to num_tiles tiles. Dimensions without a window are split first,
// outermost first. A windowed dimension, which needs `halo`[d] extra elements per part, is split only while a
// part is larger than its halo, or while the operand elements of a part, `bytes_per_element` each, exceed
// max_bytes. The innermost dimension of `order` is split in grains of a vector.
Grid SplitForWindows(const Shape& shape, const std::vector<std::int64_t>& halo,
                     const std::vector<std::int64_t>& order, std::int64_t vector_width, unsigned num_tiles,
                     std::int64_t bytes_per_element, std::int64_t max_bytes);

// Returns the innermost dimension in memory of those whose windows have one element, or -1.
int ChannelsOf(const WindowGeometry& geometry, const View& view);

// Returns a new variable in the view's memory order with the mapping `grid`, viewed with the view's
// dimensions.
poplar::Tensor NewInOrder(poplar::Graph& graph, DType type, const Grid& grid,
                          const std::vector<std::int64_t>& order, const std::string& name);

// The operand positions along one dimension that the windows of the outputs [begin, end) contain.
struct WindowRange {
  std::int64_t begin, end;
};
WindowRange OperandRange(const WindowDimension& window, std::int64_t begin, std::int64_t end,
                         std::int64_t operand_size);
// Returns the windows (of `windows`) that contain any of the operand positions [begin, end). No base
// dilation.
WindowRange WindowsMeeting(const WindowDimension& window, std::int64_t begin, std::int64_t end,
                           std::int64_t windows);

void WriteWindow(Writer& writer, const WindowGeometry& geometry);
WindowGeometry ReadWindow(Reader& reader);
// Whether windows over an operand of one shape can give results of the other.
bool WindowsFit(const WindowGeometry& geometry, const Shape& operand, const Shape& out);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_WINDOW_WINDOW_PLAN_H_
