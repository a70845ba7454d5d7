#include "operations/window/window_cost.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "kernels/host/integer_division.h"
#include "operations/elementwise/fill_iota_cost.h"
#include "operations/reduce/reduce_cost.h"

namespace ipu_model {

PoolingShape PoolingShapeOf(const WindowGeometry& geometry, const Shape& operand, const Box& box,
                            int channels, bool gradient) {
  PoolingShape shape;
  int last = -1;
  for (int d = 0; d < geometry.rank; ++d)
    if (geometry.dim[d].size > 1) last = d;
  for (int d = 0; d < geometry.rank; ++d) {
    const auto k = static_cast<std::size_t>(d);
    const WindowDimension& w = geometry.dim[d];
    const std::int64_t extent = box.end[k] - box.begin[k], size = std::min(w.size, operand[k]);
    if (d == channels) {
      shape.channels = extent;
    } else if (w.size == 1) {
      shape.batch *= extent;
    } else if (d == last) {
      shape.row = extent;
      shape.taps *= size;
      if (gradient) shape.step = w.stride;
    } else {
      shape.rows *= extent;
      shape.taps *= gradient ? CeilDivide(size, w.stride) : size;
    }
  }
  return shape;
}

std::uint64_t PoolingCycles(const TargetModel& target, Pooling pooling, DType type,
                            const PoolingShape& shape) {
  const std::int64_t workers = target.worker_contexts, width = target.VectorWidth(type);
  // Where an image has fewer channels than a vector has elements, images of the batch fill it (getTransform
  // in lib/popnn/PoolPlan.cpp).
  std::int64_t channels = shape.channels, batch = shape.batch;
  if (channels < width) {
    const std::int64_t taken = std::gcd(width / std::gcd(channels, width), batch);
    channels *= taken;
    batch /= taken;
  }
  const std::int64_t vectors = CeilDivide(channels, width), elements = batch * shape.rows * shape.row;
  const bool gradient = pooling == Pooling::kMaxGradient;
  // The innermost loop: its first element and each further one.
  const std::int64_t first = gradient ? 7 : pooling == Pooling::kMax ? 4 : 5, next = gradient ? 5 : 3;
  constexpr std::int64_t kUnpack = 2;  // of a pointer or a list
  std::int64_t longest = 0;
  for (std::int64_t worker = 0; worker < workers; ++worker) {
    const std::int64_t begin = worker * elements / workers, end = (worker + 1) * elements / workers;
    // The vertex' state, and the loop that sets the results to their first value.
    std::int64_t cycles = 17 + kUnpack + 4 + CeilDivide(elements * vectors, workers) + 6 + kUnpack + 1;
    if (end > begin) {
      const std::int64_t rows = (end - 1) / shape.row - begin / shape.row + 1;
      const std::int64_t start = shape.row - begin % shape.row, rest = (end - 1) % shape.row + 1;
      const std::int64_t met = rows == 1 ? CeilDivide(end - begin, shape.step)
                                         : CeilDivide(start, shape.step) + CeilDivide(rest, shape.step) +
                                               (rows - 2) * CeilDivide(shape.row, shape.step);
      cycles += 2 + (pooling == Pooling::kSum ? 2 : 1) + (gradient ? 6 + 2 * kUnpack : 0);
      cycles += 3 + 2 + 2 * kUnpack + 1;
      cycles += rows * (15 + shape.taps * (25 + vectors * (3 + first)));
      cycles += (met - rows) * shape.taps * vectors * next;
    }
    longest = std::max(longest, cycles);
  }
  return static_cast<std::uint64_t>(7 + longest * workers + 6);
}

std::uint64_t WindowCycles(const TargetModel& target, const ElementwiseCost& combiner, std::int64_t values,
                           std::int64_t results) {
  return ReduceCycles(target, combiner, values, results, /*contiguous=*/false);
}

std::uint64_t ScanCycles(const TargetModel& target, const ElementwiseCost& combiner, std::int64_t elements) {
  return 2 * combiner.Cycles(target, elements);
}

std::uint64_t SelectAndScatterCycles(const TargetModel& target, const ElementwiseCost& select,
                                     const ElementwiseCost& scatter, DType type, std::int64_t windows,
                                     std::int64_t taps, std::int64_t results) {
  return ReduceCycles(target, select, windows * taps, windows, /*contiguous=*/false) +
         scatter.Cycles(target, windows) + FillCycles(target, type, results);
}

}  // namespace ipu_model
