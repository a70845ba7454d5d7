#include "operations/reduce/reduce_stages.h"

#include <algorithm>
#include <utility>

#include "operations/reduce/reduce_cost.h"

namespace ipu_model {
namespace {

struct Load {
  std::int64_t values = 1, results = 1;
  bool contiguous = false;  // whether the values of a result are adjacent
};

// Returns what the fullest tile of a grid combines, and how many results that makes.
Load LargestLoad(const Grid& work, std::uint32_t mask) {
  Load load;
  for (std::size_t d = 0; d < work.shape.size(); ++d) {
    const std::int64_t largest = work.LargestPart(static_cast<int>(d));
    load.values *= largest;
    if (!IsReduced(mask, d)) load.results *= largest;
    if (largest > 1) load.contiguous = IsReduced(mask, d);
  }
  return load;
}

// Returns the cycles of one superstep that receives `bytes`.
double StageCycles(const ReduceProblem& problem, const TargetModel& target, ReducedTypes types,
                   const Load& load, double bytes) {
  return static_cast<double>(
             ReduceCycles(target, problem.combiner, types, load.values, load.results, load.contiguous) +
             target.sync_cycles) +
         bytes / target.exchange_bytes_per_cycle;
}

// Returns a grid of partial results that leaves about `groups` for each result and spreads the work.
Grid SecondStage(const Shape& shape, std::size_t reduced, std::int64_t groups, unsigned num_tiles,
                 unsigned first_tile) {
  Shape parts(shape.size(), 1);
  std::int64_t left = groups, used = 1;
  for (std::size_t d = 0; d < reduced; ++d) {
    parts[d] = std::max<std::int64_t>(1, std::min(shape[d], left));
    left /= parts[d];
    used *= parts[d];
  }
  left = num_tiles / used;
  for (std::size_t d = reduced; d < shape.size(); ++d) {
    parts[d] = std::max<std::int64_t>(1, std::min(shape[d], left));
    left /= parts[d];
  }
  return Grid::Of(shape, std::move(parts), num_tiles, first_tile);
}

}  // namespace

Grid PartialsPlacement(const Grid& work, std::uint32_t mask) {
  Grid placement;
  placement.first_tile = work.first_tile;
  placement.num_tiles = work.num_tiles;
  for (const bool reduced : {true, false}) {
    for (std::size_t d = 0; d < work.shape.size(); ++d) {
      if (IsReduced(mask, d) != reduced) continue;
      placement.shape.push_back(reduced ? work.parts[d] : work.shape[d]);
      placement.parts.push_back(work.parts[d]);
      placement.grain.push_back(reduced ? 1 : work.grain[d]);
      placement.tile_stride.push_back(work.tile_stride[d]);
    }
  }
  return placement;
}

ReduceStages ChooseReduceStages(const ReduceProblem& problem, const TargetModel& target, unsigned num_tiles) {
  const auto cycles = [&](ReducedTypes types, const Load& load, std::int64_t bytes_each) {
    return StageCycles(problem, target, types, load, static_cast<double>(load.values * bytes_each));
  };
  const ReducedTypes to_partials{problem.value, problem.partial}, to_results{problem.partial, problem.result};
  std::int64_t partials = 1;
  std::size_t reduced = 0;
  for (std::size_t d = 0; d < problem.work.shape.size(); ++d) {
    if (!IsReduced(problem.mask, d)) continue;
    partials *= problem.work.parts[d];
    ++reduced;
  }
  ReduceStages best;
  best.cycles = cycles({problem.value, problem.result},
                       {problem.results * problem.reduced, problem.results,
                        ReducesInnermost(problem.mask, problem.work.shape)},
                       problem.value_bytes);
  if (partials == 1) return best;
  const double first = cycles(to_partials, LargestLoad(problem.work, problem.mask),
                              problem.in_place ? 0 : problem.value_bytes);
  const double direct =
      first + cycles(to_results, {problem.results * partials, problem.results, problem.results == 1},
                     problem.partial_bytes);
  if (direct < best.cycles) best = {{problem.work}, direct};
  const Shape shape = PartialsPlacement(problem.work, problem.mask).shape;
  const std::uint32_t mask = (1u << reduced) - 1;
  for (std::int64_t groups = 2; groups * 2 <= partials; groups *= 2) {
    Grid second = SecondStage(shape, reduced, groups, num_tiles, problem.first_tile);
    std::int64_t left = 1;
    for (std::size_t d = 0; d < reduced; ++d) left *= second.parts[d];
    const double staged =
        first + cycles({problem.partial, problem.partial}, LargestLoad(second, mask), problem.partial_bytes) +
        cycles(to_results, {problem.results * left, problem.results, problem.results == 1},
               problem.partial_bytes);
    if (left == partials || staged >= best.cycles) continue;
    best = {{problem.work, std::move(second)}, staged};
  }
  return best;
}

}  // namespace ipu_model
