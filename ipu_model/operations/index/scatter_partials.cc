#include "operations/index/scatter_partials.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#include "core/mapping/strides.h"
#include "hlo/SingleOperation.hpp"
#include "kernels/elementwise/elementwise.h"
#include "kernels/host/integer_division.h"
#include "operations/elementwise/elementwise_cost.h"
#include "operations/elementwise/fill_iota_cost.h"
#include "operations/index/slice_grid.h"
#include "operations/reduce/reduce_cost.h"

namespace ipu_model {
namespace {

// Whether updates replace elements: the last one counts, and a second temporary says where there is one.
bool Replaces(const ScatterProblem& p) { return p.update == UpdateKind::kReplace; }

// Whether partial results may be formed. Sums of narrow floats round after each update as the whole sum
// would, in another order.
bool Combines(const ScatterProblem& p, const Expression& update) {
  if (p.num_operands != 1) return false;
  if (Replaces(p)) return true;
  const Instruction* const only = hlo::SingleOperation(update);
  return only != nullptr && hlo::NeutralBits(only->op, p.type).has_value();
}

// The dimension of the updates that is divided: the longest along which positions follow each other, or the
// first, where their order counts; -1 if there is none.
int RowsDimension(const ScatterProblem& p) {
  int found = -1;
  for (int b = 0; b < p.window.batch_rank; ++b) {
    const int dim = p.window.batch_dim[b];
    if (Walks(p, b)) return -1;
    const std::int64_t length = p.updates[static_cast<std::size_t>(dim)];
    const std::int64_t before = found < 0 ? 1 : p.updates[static_cast<std::size_t>(found)];
    if (found < 0 || (Replaces(p) && !p.unique ? before == 1 : length > before)) found = dim;
  }
  return found;
}

std::int64_t BytesOfElement(const ScatterProblem& p) {
  return static_cast<std::int64_t>(SizeOf(p.type) + (Replaces(p) ? SizeOf(DType::kPred) : 0));
}

// The box of the operand in `work`, whose first dimension is the share of the rows.
Box WithoutShare(Box box) {
  box.begin.erase(box.begin.begin());
  box.end.erase(box.end.begin());
  return box;
}

// How the updates are divided: into shares, by the grid of the partial results, and each share into
// blocks, one superstep for each.
struct Division {
  Grid grid;
  std::int64_t blocks = 1;
};

// What a vertex on `work` (a share of the rows, then a box of the operand) reads of the updates of a block.
Box ShareOfUpdates(const ScatterProblem& p, std::size_t rows_dim, const Division& division,
                   std::int64_t block, const Box& work) {
  const std::int64_t share = work.begin[0], shares = division.grid.shape[0], rows = p.updates[rows_dim];
  const std::int64_t first = rows * share / shares, count = rows * (share + 1) / shares - first;
  Box step = Box::Whole(p.updates);
  step.begin[rows_dim] = first + count * block / division.blocks;
  step.end[rows_dim] = first + count * (block + 1) / division.blocks;
  return UpdatesRegion(p, step, WithoutShare(work));
}

// Divides the rows into `shares`, and each share's partial result into `pieces` along its indexed dimensions
// and, for the tiles that are left, along the others.
Grid Divide(const ScatterProblem& p, std::int64_t shares, std::int64_t pieces, unsigned num_tiles) {
  const std::size_t rank = p.operand.size();
  Grid grid;
  grid.shape = p.operand;
  grid.shape.insert(grid.shape.begin(), shares);
  grid.parts.assign(rank + 1, 1);
  grid.grain.assign(rank + 1, 1);
  if (rank > 0) grid.grain[rank] = std::max<std::int64_t>(1, 8 / static_cast<std::int64_t>(SizeOf(p.type)));
  grid.parts[0] = shares;
  grid.num_tiles = num_tiles;
  std::int64_t left = static_cast<std::int64_t>(num_tiles) / (shares * pieces);
  for (std::size_t d = 0; d < rank; ++d) {
    std::int64_t& available = p.Indexed(d) ? pieces : left;
    const std::int64_t grains = CeilDivide(p.operand[d], grid.grain[d + 1]);
    grid.parts[d + 1] = std::clamp<std::int64_t>(available, 1, std::max<std::int64_t>(1, grains));
    available /= grid.parts[d + 1];
  }
  grid.tile_stride = RowMajorStrides(grid.parts);
  return grid;
}

std::int64_t LargestPartial(const Grid& grid) {
  std::int64_t elements = 1;
  for (std::size_t d = 0; d < grid.shape.size(); ++d) elements *= grid.LargestPart(static_cast<int>(d));
  return elements;
}

// The last superstep, on a tile with `results` elements of the result.
std::uint64_t TotalCycles(const TargetModel& target, const ScatterProblem& p, const ElementwiseCost& cost,
                          std::int64_t shares, std::int64_t results) {
  return Replaces(p) ? LastOfScatterCycles(target, p.type, shares, results)
                     : ReduceCycles(target, cost, (shares + 1) * results, results, /*contiguous=*/false);
}

class Planner {
 public:
  Planner(std::shared_ptr<const ScatterProblem> p, std::size_t rows_dim, const Expression& update,
          const DeviceContext& context, const std::vector<Vertex>& vertices, std::int64_t buffer_limit)
      : p_(std::move(p)), rows_dim_(rows_dim), cost_(update), context_(context) {
    fullest_ = std::max_element(vertices.begin(), vertices.end(), [](const Vertex& a, const Vertex& b) {
                 return a.box.num_elements() < b.box.num_elements();
               })->box;
    const std::int64_t bytes_per_tile = context.target().bytes_per_tile;
    // The partial result stays while the blocks of updates, and then the parts of the total, come and go.
    most_ = buffer_limit > 0 ? buffer_limit / 2 : SliceBudget(bytes_per_tile);
    block_ = std::min(StepBudget(bytes_per_tile), most_);
  }

  double DirectCycles(const std::vector<Box>& steps) const {
    double cycles = 0;
    for (const Box& step : steps)
      cycles += Cycles(UpdatesRegion(*p_, step, fullest_), fullest_) + context_.target().sync_cycles;
    return cycles;
  }

  // The division with the fewest cycles, which are stored; nothing is stored if none has fewer than `cycles`.
  Division Best(double* cycles) const {
    Division best;
    const std::int64_t tiles = context_.num_tiles(), rows = p_->updates[rows_dim_];
    for (std::int64_t shares = 2; shares <= std::min(rows, tiles); shares *= 2) {
      for (std::int64_t pieces = 1; shares * pieces <= tiles; pieces *= 2) {
        Division division{Divide(*p_, shares, pieces, context_.num_tiles())};
        const double found = PartialCycles(&division);
        if (found >= *cycles) continue;
        *cycles = found;
        best = std::move(division);
      }
    }
    return best;
  }

 private:
  double BytesOf(const Box& updates) const {
    return static_cast<double>(updates.num_elements()) * static_cast<double>(SizeOf(p_->type)) +
           static_cast<double>(IndicesRegion(*p_, updates).num_elements()) *
               static_cast<double>(sizeof(std::int32_t));
  }

  // The cycles of one vertex of either form, with the exchange that brings it the updates.
  double Cycles(const Box& updates, const Box& box) const {
    const TargetModel& target = context_.target();
    return BytesOf(updates) / target.exchange_bytes_per_cycle +
           static_cast<double>(VertexCycles(target, *p_, updates, box));
  }

  // Likewise, into partial results.
  double PartCycles(const Box& updates, const Box& box) const {
    return Cycles(updates, box) + static_cast<double>(MarkCycles(context_.target(), *p_, updates, box));
  }

  // Chooses the number of blocks.
  double PartialCycles(Division* division) const {
    const TargetModel& target = context_.target();
    const Grid& grid = division->grid;
    const std::int64_t size = BytesOfElement(*p_);
    const std::int64_t results = fullest_.num_elements();
    const std::int64_t partial = LargestPartial(grid), shares = grid.shape[0];
    // The partial result, and in the last superstep what each tile receives.
    if (partial * size > most_ || shares * results * size > most_)
      return std::numeric_limits<double>::infinity();
    // Parts differ by one grain at most, and the last one is a large one.
    Box work;
    for (std::size_t d = 0; d < grid.shape.size(); ++d) {
      work.begin.push_back(grid.Begin(static_cast<int>(d), grid.parts[d] - 1));
      work.end.push_back(grid.shape[d]);
    }
    const double bytes = BytesOf(ShareOfUpdates(*p_, rows_dim_, *division, 0, work));
    const std::int64_t rows = CeilDivide(p_->updates[rows_dim_], shares);
    division->blocks = BlocksOf(bytes, rows);
    const Box updates = ShareOfUpdates(*p_, rows_dim_, *division, division->blocks - 1, work);
    return static_cast<double>(division->blocks) *
               (PartCycles(updates, WithoutShare(work)) + target.sync_cycles) +
           static_cast<double>(FillCycles(target, Replaces(*p_) ? DType::kPred : p_->type, partial)) +
           static_cast<double>(shares * results * size) / target.exchange_bytes_per_cycle +
           static_cast<double>(TotalCycles(target, *p_, cost_, shares, results)) + target.sync_cycles;
  }

  // Small blocks, because a sync is short compared with the exchange of a block; larger ones if there were
  // many.
  std::int64_t BlocksOf(double bytes, std::int64_t rows) const {
    for (std::int64_t budget = block_;; budget = std::min(2 * budget, most_)) {
      const auto blocks = static_cast<std::int64_t>(bytes / static_cast<double>(budget)) + 1;
      if (blocks <= static_cast<std::int64_t>(kMostIndexingSteps) || budget >= most_)
        return std::clamp<std::int64_t>(blocks, 1, rows);
    }
  }

  std::shared_ptr<const ScatterProblem> p_;
  std::size_t rows_dim_;
  ElementwiseCost cost_;
  const DeviceContext& context_;
  Box fullest_;  // what the fullest tile has of the result
  std::int64_t most_ = 0, block_ = 0;
};

void FillNeutral(ScalarOp op, const HostTensor& t) {
  const std::uint64_t bits = *hlo::NeutralBits(op, t.type);
  const std::size_t size = SizeOf(t.type), bytes = static_cast<std::size_t>(t.num_elements()) * size;
  for (std::size_t at = 0; at < bytes; at += size) std::memcpy(t.as<char>() + at, &bits, size);
}

HostTensor WithoutShare(const HostTensor& all) {
  HostTensor one = all;
  --one.rank;
  std::copy_n(all.shape + 1, one.rank, one.shape);
  std::copy_n(all.strides + 1, one.rank, one.strides);
  return one;
}

// What a vertex reads of the updates of a block, and of their indices.
using RegionOf = std::function<Box(const Box& work)>;
RegionOf UpdatesOf(const std::shared_ptr<const ScatterProblem>& p, std::size_t rows_dim,
                   const Division& division, std::int64_t block) {
  return [p, rows_dim, division, block](const Box& work) {
    return ShareOfUpdates(*p, rows_dim, division, block, work);
  };
}

// Applies a block of the updates to the partial results, and marks where it has written.
Superstep PartialElements(const std::shared_ptr<const ScatterProblem>& p, std::size_t rows_dim,
                          const Division& division, std::int64_t block) {
  const auto identity = [](const Box& box) { return box; };
  const RegionOf updates_region = UpdatesOf(p, rows_dim, division, block);
  const bool first = block == 0;
  VertexGroup group;
  group.codelet = "popops::MultiUpdate";
  group.vertices = division.grid.Vertices();
  group.code_bytes = 500;
  group.vertex_bytes = 40;
  for (unsigned i = 0; i < 2; ++i) {
    group.writes.push_back({{OperandRef::Kind::kTemporary, i}, identity, true});
    if (!first) group.reads.push_back({{OperandRef::Kind::kTemporary, i}, identity, true});
  }
  group.reads.push_back({{OperandRef::Kind::kInput, 1}, [p, updates_region](const Box& work) {
                           return IndicesRegion(*p, updates_region(work));
                         }});
  group.reads.push_back({{OperandRef::Kind::kInput, 2}, updates_region});
  Expression mark;
  mark.inputs = {DType::kPred, DType::kPred};
  mark.outputs = {1};
  group.compute = [p, updates_region, first, marks = std::make_shared<const ScatterKernel>(mark)](
                      HostContext& context, const Box& work, const std::vector<HostTensor>& reads,
                      const std::vector<HostTensor>& writes) {
    if (first) {
      for (const HostTensor& t : writes)
        std::fill_n(t.as<char>(), static_cast<std::size_t>(t.num_elements()) * SizeOf(t.type), char{0});
    }
    const HostTensor &indices = reads[first ? 0 : 2], &updates = reads[first ? 1 : 3];
    HostTensor set = updates;
    set.type = DType::kPred;
    set.data = context.scratch.Allocate<std::uint8_t>(static_cast<std::size_t>(updates.num_elements()));
    std::fill_n(set.as<std::uint8_t>(), updates.num_elements(), std::uint8_t{1});
    const WindowPlacement placement = VertexPlacement(*p, updates_region(work), WithoutShare(work));
    const HostTensor* const with[] = {&updates, &set};
    for (std::size_t i = 0; i < 2; ++i) {
      const HostTensor out = WithoutShare(writes[i]), before = first ? out : WithoutShare(reads[i]);
      (i == 0 ? *p->kernel : *marks)
          .Run(context, p->window, placement, p->unique, &before, indices, with[i], &out);
    }
  };
  group.cycles = [p, updates_region, first](const TargetModel& target, const Box& work) {
    const Box updates = updates_region(work), box = WithoutShare(work);
    return VertexCycles(target, *p, updates, box) + MarkCycles(target, *p, updates, box) +
           (first ? FillCycles(target, DType::kPred, work.num_elements()) : 0);
  };
  return {{std::move(group)}};
}

// Takes of each element the last partial result that has one.
Superstep LastElements(const std::shared_ptr<const ScatterProblem>& p, const std::vector<Vertex>& vertices,
                       std::int64_t shares) {
  const auto identity = [](const Box& box) { return box; };
  VertexGroup group;
  group.codelet = "hlo::ScatterLast";
  group.vertices = vertices;
  group.code_bytes = 120;
  group.vertex_bytes = 24;
  group.reads.push_back({{OperandRef::Kind::kInput, 0}, identity, true});
  for (unsigned i = 0; i < 2; ++i) {
    group.reads.push_back({{OperandRef::Kind::kTemporary, i}, [shares](const Box& box) {
                             Box all = box;
                             all.begin.insert(all.begin.begin(), 0);
                             all.end.insert(all.end.begin(), shares);
                             return all;
                           }});
  }
  group.writes.push_back({{OperandRef::Kind::kOutput, 0}, identity, true});
  group.compute = [](HostContext&, const Box&, const std::vector<HostTensor>& reads,
                     const std::vector<HostTensor>& writes) {
    const auto count = static_cast<std::size_t>(writes[0].num_elements()), size = SizeOf(writes[0].type),
               last = static_cast<std::size_t>(reads[1].shape[0]);
    const char* const partial = reads[1].as<const char>();
    const std::uint8_t* const marks = reads[2].as<const std::uint8_t>();
    for (std::size_t i = 0; i < count; ++i) {
      std::size_t share = last;
      while (share > 0 && marks[(share - 1) * count + i] == 0) --share;
      const char* const from =
          share == 0 ? reads[0].as<const char>() + i * size : partial + ((share - 1) * count + i) * size;
      std::copy_n(from, size, writes[0].as<char>() + i * size);
    }
  };
  group.cycles = [p, shares](const TargetModel& target, const Box& box) {
    return LastOfScatterCycles(target, p->type, shares, box.num_elements());
  };
  return {{std::move(group)}};
}

// Combines a block of the updates with the partial results.
Superstep PartialResults(const std::shared_ptr<const ScatterProblem>& p, ScalarOp op, std::size_t rows_dim,
                         const Division& division, std::int64_t block) {
  const auto identity = [](const Box& box) { return box; };
  const RegionOf updates_region = UpdatesOf(p, rows_dim, division, block);
  const bool first = block == 0;
  VertexGroup group;
  group.codelet = op == ScalarOp::kAdd ? "popops::MultiUpdateAdd" : "popops::MultiUpdateOp";
  group.vertices = division.grid.Vertices();
  group.code_bytes = 500;
  group.vertex_bytes = 36;
  group.writes.push_back({{OperandRef::Kind::kTemporary, 0}, identity, true});
  if (!first) group.reads.push_back({{OperandRef::Kind::kTemporary, 0}, identity, true});
  group.reads.push_back({{OperandRef::Kind::kInput, 1}, [p, updates_region](const Box& work) {
                           return IndicesRegion(*p, updates_region(work));
                         }});
  group.reads.push_back({{OperandRef::Kind::kInput, 2}, updates_region});
  group.compute = [p, op, updates_region, first](HostContext& context, const Box& work,
                                                 const std::vector<HostTensor>& reads,
                                                 const std::vector<HostTensor>& writes) {
    const HostTensor sums = WithoutShare(writes[0]);
    if (first) FillNeutral(op, sums);
    const HostTensor before = first ? sums : WithoutShare(reads[0]);
    const std::size_t indices = first ? 0 : 1;
    p->kernel->Run(context, p->window, VertexPlacement(*p, updates_region(work), WithoutShare(work)),
                   p->unique, &before, reads[indices], &reads[indices + 1], &sums);
  };
  group.cycles = [p, updates_region, first](const TargetModel& target, const Box& work) {
    return VertexCycles(target, *p, updates_region(work), WithoutShare(work)) +
           (first ? FillCycles(target, p->type, work.num_elements()) : 0);
  };
  return {{std::move(group)}};
}

Superstep Total(const Expression& update, const std::vector<Vertex>& vertices, std::int64_t shares,
                const TargetModel& target) {
  const auto identity = [](const Box& box) { return box; };
  const ElementwiseCost cost(update);
  VertexGroup group;
  group.codelet = "popops::ReduceFinal";
  group.vertices = vertices;
  group.code_bytes = cost.CodeBytes(target);
  group.vertex_bytes = 24;
  group.reads.push_back({{OperandRef::Kind::kInput, 0}, identity, true});
  group.reads.push_back({{OperandRef::Kind::kTemporary, 0}, [shares](const Box& box) {
                           Box all = box;
                           all.begin.insert(all.begin.begin(), 0);
                           all.end.insert(all.end.begin(), shares);
                           return all;
                         }});
  group.writes.push_back({{OperandRef::Kind::kOutput, 0}, identity, true});
  group.compute = [kernel = std::make_shared<const ElementwiseKernel>(update)](
                      HostContext& context, const Box&, const std::vector<HostTensor>& reads,
                      const std::vector<HostTensor>& writes) {
    HostTensor part = writes[0];
    const auto bytes = static_cast<std::size_t>(part.num_elements()) * SizeOf(part.type);
    for (std::int64_t share = 0; share < reads[1].shape[0]; ++share) {
      part.data = reads[1].as<char>() + static_cast<std::size_t>(share) * bytes;
      const HostTensor in[2] = {share == 0 ? reads[0] : writes[0], part};
      kernel->Run(context, in, writes.data());
    }
  };
  group.cycles = [cost, shares](const TargetModel& model, const Box& box) {
    return ReduceCycles(model, cost, (shares + 1) * box.num_elements(), box.num_elements(),
                        /*contiguous=*/false);
  };
  return {{std::move(group)}};
}

}  // namespace

bool PlanScatterPartials(const std::shared_ptr<const ScatterProblem>& p, const Expression& update,
                         const DeviceContext& context, const View& result,
                         const std::vector<Vertex>& vertices, const std::vector<Box>& steps,
                         std::int64_t buffer_limit, double* cycles, TilePlan* plan) {
  *cycles = 0;
  const int rows_dim = RowsDimension(*p);
  if (!Combines(*p, update) || rows_dim < 0 || result.num_elements() == 0) return false;
  const auto dim = static_cast<std::size_t>(rows_dim);
  const Planner planner(p, dim, update, context, vertices, buffer_limit);
  *cycles = planner.DirectCycles(steps);
  const Division division = planner.Best(cycles);
  if (division.grid.shape.empty()) return false;
  plan->temporaries.push_back({p->type, division.grid});
  if (Replaces(*p)) {
    plan->temporaries.push_back({DType::kPred, division.grid});
    for (std::int64_t block = 0; block < division.blocks; ++block)
      plan->supersteps.push_back(PartialElements(p, dim, division, block));
    plan->supersteps.push_back(LastElements(p, vertices, division.grid.shape[0]));
    return true;
  }
  for (std::int64_t block = 0; block < division.blocks; ++block)
    plan->supersteps.push_back(PartialResults(p, hlo::SingleOperation(update)->op, dim, division, block));
  plan->supersteps.push_back(Total(update, vertices, division.grid.shape[0], context.target()));
  return true;
}

}  // namespace ipu_model
