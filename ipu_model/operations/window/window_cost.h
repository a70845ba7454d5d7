// Tile cycles of reduce_window, cumulative operations and select_and_scatter.
#ifndef IPU_MODEL_OPERATIONS_WINDOW_WINDOW_COST_H_
#define IPU_MODEL_OPERATIONS_WINDOW_WINDOW_COST_H_

#include <cstdint>

#include "core/mapping/box.h"
#include "core/target/target_model.h"
#include "kernels/window/window.h"
#include "operations/elementwise/elementwise_cost.h"

namespace ipu_model {

// popnn's vertices of pooling. The gradient is of max pooling.
enum class Pooling { kMax, kSum, kMaxGradient };

// What a vertex of pooling computes, as popnn sees it. A row is along the last dimension with windows.
struct PoolingShape {
  std::int64_t batch = 1, channels = 1;  // elements along dimensions without windows; channels are vectors
  std::int64_t rows = 1, row = 1;        // elements along those with windows; rows of one batch
  std::int64_t taps = 1;                 // window elements that an element meets; in a row, of any element
  std::int64_t step = 1;                 // distance of the elements of a row that meet one of them
};

// The shape of a vertex that computes `box` of results, or of operands for the gradient. `channels`: the
// innermost dimension in memory of those without windows, or -1.
PoolingShape PoolingShapeOf(const WindowGeometry& geometry, const Shape& operand, const Box& box,
                            int channels, bool gradient);

// getPoolingCycles in lib/popnn/PerformanceEstimation.hpp, with the shares of the workers and the unpacked
// pointers of PopLibs' planner (poolVertexCycleEstimate in lib/popnn/PoolVertices.cpp).
std::uint64_t PoolingCycles(const TargetModel& target, Pooling pooling, DType type,
                            const PoolingShape& shape);

// Other window reductions: a vertex that combines `values` elements of windows into `results`.
std::uint64_t WindowCycles(const TargetModel& target, const ElementwiseCost& combiner, std::int64_t values,
                           std::int64_t results);

// Cumulative operations: a vertex that scans `elements`. The workers scan shares of the elements, then
// combine what stands before each share with it.
std::uint64_t ScanCycles(const TargetModel& target, const ElementwiseCost& combiner, std::int64_t elements);

// Other select_and_scatter: a vertex that writes `results` elements of `type`, after it selected in `windows`
// windows of `taps` elements each.
std::uint64_t SelectAndScatterCycles(const TargetModel& target, const ElementwiseCost& select,
                                     const ElementwiseCost& scatter, DType type, std::int64_t windows,
                                     std::int64_t taps, std::int64_t results);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_WINDOW_WINDOW_COST_H_
