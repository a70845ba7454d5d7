#include "operations/reduce/reduce_cost.h"

#include <algorithm>

#include "kernels/host/integer_division.h"

namespace ipu_model {
namespace {

using Int = std::int64_t;

// PopLibs: getCyclesEstimateForStridedReduce, not an update. Rows of results are added to one another, one
// word of the data path at a time. A sum has accumulators to read out.
Int StridedWorker(Int width, bool half, bool sum, Int partials, Int results) {
  const Int after = half ? 8 : sum ? 5 : 4;
  const Int word = 3 + after + 3 + (partials - 1);
  return 5 + 11 + word * CeilDivide(results, width);
}

// PopLibs: getCyclesEstimateForSingleInput (one result) and getCycleEstimateReduceAllRegionsContinuous: the
// values of a result are one region.
Int ContiguousWorker(Int width, bool half, bool sum, Int partials, Int results) {
  if (results == 1) {
    const Int vector = sum ? 2 * width : width, loads = vector / width;
    return 3 + 6 + loads * partials / vector + 5 + partials % vector + 3 + (half ? 5 : 0);
  }
  return results * (partials / width) + (partials % 2 != 0 ? 2 : 0) + 12 * results + 10 + 7;
}

}  // namespace

std::uint64_t ReduceCycles(const TargetModel& target, const ElementwiseCost& combiner, std::int64_t values,
                           std::int64_t results, bool contiguous) {
  if (results == 0) return 0;
  const Int workers = target.worker_contexts, partials = CeilDivide(values, results);
  if (combiner.vector_type() == DType::kPred) {
    // C++ codelets (getCyclesEstimateForReduce): 22 cycles for every result, beside the combiner's own loop.
    return combiner.Cycles(target, values) +
           static_cast<std::uint64_t>(CeilDivide(results, workers) * 22 * workers);
  }
  const bool half = combiner.vector_type() == DType::kF16, sum = combiner.is_sum();
  const Int width = target.VectorWidth(combiner.vector_type());
  const auto worker = [&](bool one_region, Int count, Int outputs) {
    return one_region ? ContiguousWorker(width, half, sum, count, outputs)
                      : StridedWorker(width, half, sum, count, outputs);
  };
  // The workers share the results, whole words if they are adjacent. Where they are more, they may divide the
  // values of a result as well, and second vertices add their sums, one result or word on each worker.
  const Int grains = contiguous ? results : CeilDivide(results, width), grain = contiguous ? 1 : width;
  Int best = 0;
  for (Int split = 1; split <= std::max<Int>(1, std::min(workers / grains, partials / 2)); ++split) {
    Int cycles = worker(contiguous, CeilDivide(partials, split),
                        std::min(results, CeilDivide(grains * split, workers) * grain));
    if (split > 1) cycles += worker(contiguous, split, std::min(results, grain));
    if (split == 1 || cycles < best) best = cycles;
  }
  return static_cast<std::uint64_t>(workers * best);
}

}  // namespace ipu_model
