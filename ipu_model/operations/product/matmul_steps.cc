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
constexpr std::int64_t kMostSteps = 64;
// The matrix unit, roughly: the output and input channels that it takes together, the positions that it could
// compute while it loads their weights, and its products per cycle, for operands of two bytes and for larger
// ones.
constexpr std::int64_t kUnits = 8, kInputGroup = 8, kLoad = 16;
constexpr double kHalfProducts = 64, kProducts = 16;
constexpr double kBytesPerCycle = 4;  // that a tile receives

// The bytes that a tile receives for the largest block, and the search for its steps.
class StepSearch {
 public:
  StepSearch(const MatMulPlan& plan, DType a_type, DType b_type, double limit)
      : plan_(plan), best_(plan), limit_(limit) {
    const auto block = [&](MatMulDim d) { return plan.grid.LargestPart(d); };
    const std::int64_t g = block(kGroupDim), m = block(kRowDim), n = block(kColumnDim), k = block(kDepthDim);
    const auto bytes = [](std::int64_t elements, DType type) {
      return static_cast<double>(elements) * static_cast<double>(SizeOf(type));
    };
    const auto received = [](std::int64_t known, double whole) {
      return known < 0 ? whole : std::min(whole, static_cast<double>(known));
    };
    whole_a_ = bytes(g * m * k, a_type);
    whole_b_ = bytes(g * k * n, b_type);
    a_ = received(plan.received_a, whole_a_);
    b_ = received(plan.received_b, whole_b_);
    partials_ = bytes(g * m * n, plan.partial_type);
    const bool half = SizeOf(a_type) <= 2 && SizeOf(b_type) <= 2;
    product_ = static_cast<double>(g * m * n * k) * kBytesPerCycle / (half ? kHalfProducts : kProducts);
    depth_ = k;
    rows_ = m;
    columns_ = n;
  }

  MatMulPlan Best() {
    least_ = Bytes(plan_);
    if (least_ <= limit_) return plan_;
    for (std::int64_t n = 1; n <= kMostSteps; n += std::max<std::int64_t>(1, n / 4)) {
      if (n <= rows_) Consider(kRowDim, n);
      if (n > 1 && n <= columns_) Consider(kColumnDim, n);
    }
    return best_;
  }
  // Whether the best steps do with the memory.
  bool fits() const { return least_ <= limit_; }

 private:
  bool several_parts() const { return plan_.grid.parts[kDepthDim] > 1; }
  double Sums(const MatMulPlan& p) const { return partials_ / static_cast<double>(p.output_steps); }
  double Operands(const MatMulPlan& p) const {
    const auto steps = static_cast<double>(p.output_steps);
    return p.output_dim == kRowDim ? a_ / steps + b_ : a_ + b_ / steps;
  }

  // What the matrix unit does beside the products, as a share of them, more than in one step: it computes
  // whole groups of channels, and loads its weights for every step over the other dimension.
  double Idle(const MatMulPlan& p) const {
    const auto more = [](std::int64_t extent, std::int64_t steps, std::int64_t group, std::int64_t load) {
      const auto taken = [=](std::int64_t n) { return CeilDivide(n, group) * group + load; };
      return static_cast<double>(steps * taken(CeilDivide(extent, steps)) - taken(extent)) /
             static_cast<double>(extent);
    };
    const bool in_units = (p.output_dim == kRowDim) == plan_.rows_in_units;
    return more(depth_, p.depth_steps, kInputGroup, 0) + more(p.output_dim == kRowDim ? rows_ : columns_,
                                                              p.output_steps, in_units ? kUnits : 1,
                                                              in_units ? 0 : kLoad);
  }

  double Bytes(const MatMulPlan& p) const {
    if (p.keeps_operand) {
      const auto steps = static_cast<double>(p.output_steps);
      const double cut = (p.output_dim == kRowDim ? a_ : b_) / steps,
                   kept = p.output_dim == kRowDim ? whole_b_ : whole_a_;
      return several_parts() ? kept + Sums(p) + std::max(cut, Sums(p)) : kept + cut;
    }
    const double operands = Operands(p) / static_cast<double>(p.depth_steps);
    // The partial sums of other tiles arrive while the tile's own are live.
    if (several_parts()) return Sums(p) + std::max(operands, Sums(p));
    return p.depth_steps > 1 ? Sums(p) + operands : operands;
  }

  // Steps over rows or columns, with as few over the depth as do with the memory.
  void Consider(MatMulDim dim, std::int64_t steps) {
    MatMulPlan p = plan_;
    p.output_dim = dim;
    p.output_steps = steps;
    p.depth_steps = 1;
    p.keeps_operand = false;
    if (steps > 1) p.stage_sums = 1;
    const double room = limit_ - Sums(p);
    if (Bytes(p) <= limit_) {
      MatMulPlan kept = p;
      kept.keeps_operand = steps > 1 && (dim == kRowDim ? b_ : a_) > 0;
      if (Bytes(kept) <= limit_) p = kept;
    } else {
      const std::int64_t most = std::min(depth_, kMostSteps / steps);
      const double needed = room > 0 ? std::ceil(Operands(p) / room) : static_cast<double>(most);
      p.depth_steps =
          std::max<std::int64_t>(1, static_cast<std::int64_t>(std::min(needed, static_cast<double>(most))));
    }
    const auto outputs = static_cast<double>(p.output_steps), depth = static_cast<double>(p.depth_steps);
    // The other operand arrives again in every step over the outputs, unless it is kept, and partial sums are
    // loaded and stored again in every step over the depth.
    const double moved = (p.keeps_operand ? 0 : (outputs - 1) * (dim == kRowDim ? b_ : a_)) +
                         (depth - 1) * partials_ + outputs * depth * kSuperstepBytes + Idle(p) * product_;
    const double bytes = Bytes(p);
    const bool fits = bytes <= limit_, best_fits = least_ <= limit_;
    if (fits != best_fits ? !fits : fits ? moved >= least_moved_ : bytes >= least_) return;
    best_ = p;
    least_ = bytes;
    if (fits) least_moved_ = moved;
  }

  const MatMulPlan& plan_;
  MatMulPlan best_;
  const double limit_;
  double whole_a_, whole_b_, a_, b_, partials_, product_;
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

std::vector<Vertex> OutputsOfStep(const MatMulPlan& plan, std::int64_t step) {
  const std::int64_t parts = plan.grid.parts[kDepthDim];
  const int shared = SharedOutputDim(plan);
  std::vector<Vertex> outputs;
  for (Vertex& v : VerticesOfStep(plan.grid.Vertices(), plan.output_dim, step, plan.output_steps)) {
    const std::int64_t part = plan.grid.PartOf(kDepthDim, v.box.begin[kDepthDim]);
    v.box.begin.resize(kDepthDim);
    v.box.end.resize(kDepthDim);
    std::tie(v.box.begin[shared], v.box.end[shared]) =
        StepRange(v.box.begin[shared], v.box.end[shared], part, parts);
    if (v.box.num_elements() > 0) outputs.push_back(std::move(v));
  }
  return outputs;
}

}  // namespace ipu_model
