#include "operations/product/matmul_steps.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "core/deadline.h"
#include "kernels/host/integer_division.h"

namespace ipu_model {
namespace {

// What a superstep costs, in bytes that a tile receives meanwhile.
constexpr double kSuperstepBytes = 2000;
// With more steps, another division among the tiles takes fewer cycles.
constexpr std::int64_t kMostSteps = 16;

// The sizes of the largest block, in bytes, and the search for its steps.
class StepSearch {
 public:
  StepSearch(const MatMulPlan& plan, DType a_type, DType b_type, double limit)
      : plan_(plan), best_(plan), limit_(limit) {
    const auto block = [&](MatMulDim d) { return plan.grid.LargestPart(d); };
    const std::int64_t g = block(kGroupDim), m = block(kRowDim), n = block(kColumnDim), k = block(kDepthDim);
    const auto bytes = [](std::int64_t elements, DType type) {
      return static_cast<double>(elements) * static_cast<double>(SizeOf(type));
    };
    a_ = bytes(g * m * k, a_type);
    b_ = bytes(g * k * n, b_type);
    partials_ = bytes(g * m * n, plan.partial_type);
    depth_ = k;
    rows_ = m;
    columns_ = n;
  }

  MatMulPlan Best() {
    least_ = Bytes(plan_);
    if (least_ <= limit_) return plan_;
    for (std::int64_t n = 2; n <= kMostSteps; n += std::max<std::int64_t>(1, n / 4)) {
      if (n <= depth_) Depth(n);
      if (n <= rows_) Outputs(kRowDim, n);
      if (n <= columns_) Outputs(kColumnDim, n);
    }
    return best_;
  }
  // Whether the best steps do with the memory.
  bool fits() const { return least_ <= limit_; }

 private:
  bool several_parts() const { return plan_.grid.parts[kDepthDim] > 1; }

  double Bytes(const MatMulPlan& p) const {
    if (!several_parts()) {
      return p.depth_steps > 1
                 ? partials_ + (a_ + b_) / static_cast<double>(p.depth_steps)
                 : b_ / static_cast<double>(p.column_steps) + a_ / static_cast<double>(p.row_steps);
    }
    // The partial sums of other tiles arrive while the tile's own are live.
    const auto steps = static_cast<double>(p.output_steps);
    const double sums = partials_ / steps;
    const double operands = p.output_dim == kRowDim ? a_ / steps + b_ : a_ + b_ / steps;
    return sums + std::max(operands / static_cast<double>(p.depth_steps), sums);
  }

  void Consider(const MatMulPlan& p, double moved) {
    const double bytes = Bytes(p);
    const bool fits = bytes <= limit_, best_fits = least_ <= limit_;
    if (fits != best_fits ? !fits : fits ? moved >= least_moved_ : bytes >= least_) return;
    best_ = p;
    least_ = bytes;
    if (fits) least_moved_ = moved;
  }

  MatMulPlan Plain() const {
    MatMulPlan p = plan_;
    p.row_steps = p.column_steps = p.depth_steps = p.output_steps = 1;
    return p;
  }

  // All operands arrive once; partial sums are loaded and stored again in every step.
  void Depth(std::int64_t steps) {
    MatMulPlan p = Plain();
    p.depth_steps = steps;
    Consider(p, static_cast<double>(steps) * (partials_ + kSuperstepBytes));
  }

  // Steps over rows or columns, in each of which the other operand arrives again.
  void Outputs(MatMulDim dim, std::int64_t steps) {
    MatMulPlan p = Plain();
    const auto n = static_cast<double>(steps);
    if (several_parts()) {
      p.output_dim = dim;
      p.output_steps = steps;
      p.stage_sums = 1;
      return Consider(p, (n - 1) * (dim == kRowDim ? b_ : a_) + 2 * n * kSuperstepBytes);
    }
    if (dim == kRowDim) return;
    // B stays for all rows of a step.
    for (const std::int64_t columns : {steps, std::int64_t{1}}) {
      const double kept = b_ / static_cast<double>(columns);
      if (kept >= limit_) continue;
      p.column_steps = columns;
      p.row_steps =
          std::clamp<std::int64_t>(static_cast<std::int64_t>(std::ceil(a_ / (limit_ - kept))), 1, rows_);
      Consider(p, (static_cast<double>(columns) - 1) * a_ + (p.row_steps > 1 ? b_ : 0) +
                      static_cast<double>(columns * p.row_steps) * kSuperstepBytes);
    }
  }

  const MatMulPlan& plan_;
  MatMulPlan best_;
  const double limit_;
  double a_, b_, partials_;
  std::int64_t depth_, rows_, columns_;
  double least_ = 0, least_moved_ = std::numeric_limits<double>::infinity();
};

// Returns the part of [begin, end) in step `step`.
std::pair<std::int64_t, std::int64_t> StepRange(std::int64_t begin, std::int64_t end, std::int64_t step,
                                                std::int64_t steps) {
  const std::int64_t extent = end - begin;
  return {begin + extent * step / steps, begin + extent * (step + 1) / steps};
}

}  // namespace

MatMulPlan StepsWithin(const MatMulPlan& plan, DType a, DType b, double bytes) {
  return StepSearch(plan, a, b, bytes).Best();
}

bool HasStepsWithin(const MatMulPlan& plan, DType a, DType b, double bytes) {
  StepSearch search(plan, a, b, bytes);
  search.Best();
  return search.fits();
}

std::vector<Vertex> VerticesOfStep(std::vector<Vertex> vertices, MatMulDim dim, std::int64_t step,
                                   std::int64_t steps) {
  CheckDeadline();
  if (steps == 1) return vertices;
  for (Vertex& v : vertices)
    std::tie(v.box.begin[dim], v.box.end[dim]) = StepRange(v.box.begin[dim], v.box.end[dim], step, steps);
  const auto empty = [dim](const Vertex& v) { return v.box.begin[dim] == v.box.end[dim]; };
  vertices.erase(std::remove_if(vertices.begin(), vertices.end(), empty), vertices.end());
  return vertices;
}

Grid StepPartialsGrid(const MatMulPlan& plan) {
  const Grid& grid = plan.grid;
  Grid p;
  p.first_tile = grid.first_tile;
  p.num_tiles = grid.num_tiles;
  for (const int d : {static_cast<int>(kDepthDim), static_cast<int>(plan.output_dim)})
    p.Append(grid.parts[d], grid.parts[d], grid.tile_stride[d]);
  for (const int d : {kGroupDim, kRowDim, kColumnDim}) {
    if (d == plan.output_dim) {
      p.Append(CeilDivide(grid.LargestPart(d), plan.output_steps), 1, 0);
    } else {
      p.Append(grid.shape[d], grid.parts[d], grid.tile_stride[d]);
    }
  }
  return p;
}

Box StepPartialsRegion(const MatMulPlan& plan, std::int64_t step, Box box) {
  const int d = plan.output_dim;
  const std::int64_t part = plan.grid.PartOf(d, box.begin[d]);
  const std::int64_t first =
      StepRange(plan.grid.Begin(d, part), plan.grid.Begin(d, part + 1), step, plan.output_steps).first;
  box.begin[d] -= first;
  box.end[d] -= first;
  box.begin.insert(box.begin.begin(), part);
  box.end.insert(box.end.begin(), part + 1);
  return box;
}

std::vector<Vertex> OutputsOfStep(const MatMulPlan& plan, std::int64_t step,
                                  const std::vector<Vertex>& vertices) {
  const int d = plan.output_dim;
  std::vector<Vertex> cut;
  for (const Vertex& v : vertices) {
    for (std::int64_t at = v.box.begin[d]; at < v.box.end[d];) {
      const std::int64_t part = plan.grid.PartOf(d, at), next = plan.grid.Begin(d, part + 1);
      const auto [first, last] = StepRange(plan.grid.Begin(d, part), next, step, plan.output_steps);
      Vertex piece = v;
      piece.box.begin[d] = std::max(at, first);
      piece.box.end[d] = std::min(v.box.end[d], last);
      if (piece.box.begin[d] < piece.box.end[d]) cut.push_back(std::move(piece));
      at = next;
    }
  }
  return cut;
}

}  // namespace ipu_model
