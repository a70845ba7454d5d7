#include "operations/reduce/reduce_cost.h"

#include <algorithm>

#include "kernels/host/integer_division.h"

namespace ipu_model {
namespace {

using Int = std::int64_t;

// A vertex of one of the data path's operations.
struct Form {
  Int width;  // elements of one word of the data path
  bool sum;
  ReducedTypes types;
};

Form FormOf(const TargetModel& target, bool sum, ReducedTypes types) {
  return {target.VectorWidth(types.values), sum, types};
}

// PopLibs: getCyclesEstimateForStridedReduce, not an update. Rows of results are added to one another, one
// word of the data path at a time. A sum has accumulators to read out.
Int StridedWorker(const Form& form, Int partials, Int results) {
  const bool half = form.types.values == DType::kF16, to_half = form.types.results == DType::kF16;
  const Int after = half ? (form.sum && !to_half ? 7 : 8) : form.sum ? 5 : 4;
  const Int word = 3 + after + 3 + (partials - 1);
  return 5 + 11 + word * CeilDivide(results, form.width);
}

// PopLibs: getCyclesEstimateForSingleInput (one result) and getCycleEstimateReduceAllRegionsContinuous: the
// values of a result are one region.
Int ContiguousWorker(const Form& form, Int partials, Int results) {
  if (results == 1) {
    const Int vector = form.sum ? 2 * form.width : form.width, loads = vector / form.width;
    return 3 + 6 + loads * partials / vector + 5 + partials % vector + 3 +
           (form.types.results == DType::kF16 ? 5 : 0);
  }
  return results * (partials / form.width) + (partials % 2 != 0 ? 2 : 0) + 12 * results + 10 + 7;
}

}  // namespace

std::uint64_t ReduceCycles(const TargetModel& target, const ElementwiseCost& combiner, ReducedTypes types,
                           std::int64_t values, std::int64_t results, bool contiguous) {
  if (results == 0) return 0;
  const Int workers = target.worker_contexts, partials = CeilDivide(values, results);
  if (combiner.vector_type() == DType::kPred) {
    // C++ codelets (getCyclesEstimateForReduce): 22 cycles for every result, beside the combiner's own loop.
    return combiner.Cycles(target, values) +
           static_cast<std::uint64_t>(CeilDivide(results, workers) * 22 * workers);
  }
  const bool sum = combiner.is_sum();
  const DType held = types.values == DType::kF16 && combiner.is_rounded() ? DType::kF32 : types.values;
  const Form whole = FormOf(target, sum, types), first = FormOf(target, sum, {types.values, held}),
             second = FormOf(target, sum, {held, types.results});
  const auto worker = [&](const Form& form, Int count, Int outputs) {
    return contiguous ? ContiguousWorker(form, count, outputs) : StridedWorker(form, count, outputs);
  };
  // The workers share the results, whole words if they are adjacent. Where they are more, they may divide the
  // values of a result as well, and second vertices add their sums, one result or word on each worker.
  const Int grains = contiguous ? results : CeilDivide(results, whole.width),
            grain = contiguous ? 1 : whole.width;
  Int best = 0;
  for (Int split = 1; split <= std::max<Int>(1, std::min(workers / grains, partials / 2)); ++split) {
    Int cycles = worker(split == 1 ? whole : first, CeilDivide(partials, split),
                        std::min(results, CeilDivide(grains * split, workers) * grain));
    if (split > 1) cycles += worker(second, split, std::min(results, grain));
    if (split == 1 || cycles < best) best = cycles;
  }
  return static_cast<std::uint64_t>(workers * best);
}

std::uint64_t ReduceCycles(const TargetModel& target, const ElementwiseCost& combiner, std::int64_t values,
                           std::int64_t results, bool contiguous) {
  return ReduceCycles(target, combiner, {combiner.vector_type(), combiner.vector_type()}, values, results,
                      contiguous);
}

}  // namespace ipu_model
