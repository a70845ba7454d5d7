#include "operations/index/scatter_rounds.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/mapping/strides.h"
#include "core/target/target_model.h"
#include "hlo/SingleOperation.hpp"
#include "kernels/copy/strided_copy.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/host/dense_tensor.h"
#include "kernels/host/integer_division.h"
#include "operations/elementwise/elementwise_cost.h"
#include "operations/elementwise/fill_iota_cost.h"
#include "operations/index/gather_plan.h"
#include "operations/index/index_cost.h"
#include "operations/index/rounds_order.h"
#include "operations/reduce/reduce_cost.h"
#include "operations/vertex_groups.h"

namespace ipu_model {
namespace {

using namespace rounds;
using Kind = OperandRef::Kind;
using Shared = SharedRounds;

// After those of the order: sums of blocks, and the updates, as the vertices with indices have them.
constexpr unsigned kSums = kBlocks, kUpdates = kOthers;

// Sums of a block are as many as there are vertices, so blocks are smaller than those of gathers.
constexpr unsigned kMostBlockShift = 6;
constexpr std::int64_t kMostShares = 64;

// A vertex that adds its updates of a block of `elements` elements in all; a row has `window`.
std::uint64_t SumCycles(const TargetModel& target, UpdateKind kind, DType type, std::int64_t updates,
                        std::int64_t blocks, std::int64_t window, std::int64_t elements) {
  return FillCycles(target, type, elements) + AddToBlockCycles(target, kind, type, updates, blocks, window);
}

// A vertex that adds the sums of `sums` vertices to `elements` elements.
std::uint64_t TotalCycles(const TargetModel& target, const ElementwiseCost& cost, std::int64_t sums,
                          std::int64_t elements) {
  return ReduceCycles(target, cost, (sums + 1) * elements, elements, /*contiguous=*/false);
}

// Finds the cycles and the memory of the rounds, with at most `updates` updates on a tile in a pass.
void Estimate(const ScatterProblem& p, const GatherProblem& rows, const ElementwiseCost& cost,
              const TargetModel& target, std::int64_t updates, std::int64_t width, GatherRounds* r) {
  const auto size = static_cast<std::int64_t>(SizeOf(p.type));
  const auto index_size = static_cast<std::int64_t>(SizeOf(rows.index_type));
  const std::int64_t workers = target.worker_contexts, own = r->block() * width;
  const std::int64_t columns = width / r->columns.extent * r->columns.Largest();
  const std::int64_t block = std::min(r->group_tiles(), r->rows.parts) * r->block() * columns;
  const std::int64_t vertices = r->lookups.num_parts(), received = vertices * own * size;
  const auto rate = static_cast<double>(target.exchange_bytes_per_cycle);
  const auto sync = static_cast<double>(target.sync_cycles);
  const double trip = static_cast<double>(SumCycles(target, p.update, p.type, updates, r->shares * r->trips,
                                                    columns, block)) +
                      static_cast<double>(std::max(received, block * size)) / rate +
                      static_cast<double>(TotalCycles(target, cost, vertices, own)) + 2 * sync;
  const double pass =
      static_cast<double>(OrderLookupsCycles(target, updates, r->buckets(), p.window.num_wraps)) +
      static_cast<double>(updates * index_size) / rate + sync +
      (r->apart ? static_cast<double>(updates * columns * size) / rate + sync : 0) +
      static_cast<double>(r->trips) * trip;
  r->cycles = static_cast<double>(r->passes) * pass;
  r->bytes = Words(4 * updates) + Words(4 * workers * r->trips) + 8 * workers + Words(block * size) +
             (r->apart ? Words(updates * columns * size) : 0) + 4 * r->rows.parts +
             std::max(received, updates * index_size);
}

// Two dimensions: rows, and the elements of each.
HostTensor RowsAt(DType type, void* data, std::int64_t n, std::int64_t width) {
  HostTensor t;
  t.data = data;
  t.type = type;
  t.rank = 2;
  t.shape[0] = n;
  t.shape[1] = width;
  SetDenseStrides(&t);
  return t;
}

// The sums of blocks: a number of each vertex of a share, then blocks of all parts.
Shape SumsShape(const Rounds& s) {
  Shape shape = BlocksShape(s);
  shape.insert(shape.begin(), s.r.lookups.num_parts());
  return shape;
}

// Whether the vertices with indices have their updates, so that these need no copy. `apart` says that they do
// not.
bool HaveUpdates(const GatherProblem& rows, const GatherRounds& r) {
  if (rows.out_mapping == nullptr || r.shares > 1 || r.columns.parts > 1) return false;
  Grid grid = r.lookups;
  for (std::size_t d = grid.shape.size(); d < rows.out.size(); ++d) grid.Append(rows.out[d], 1, 0);
  return rows.out_view.offset == 0 && rows.out_view.strides == RowMajorStrides(rows.out) &&
         *rows.out_mapping == Mapping(grid);
}

Box UpdatesOf(const Rounds& s, const Box& box) {
  Box region = OutOf(s, box, kBatch);
  if (const std::size_t columns = s.r.ColumnsOfResult(s.p); columns > 0) {
    region.begin[columns] = box.begin[2];
    region.end[columns] = box.end[2];
  }
  return region;
}

// The same in the temporary, one row after another.
Box HeldUpdatesOf(const Rounds& s, const Box& box) {
  return RowOf(box.begin[0], PlacesOf(box, kBatch) * s.WidthOf(box));
}

VertexGroup CopyOperand(const Shared& s) {
  VertexGroup group = MakeVertexGroup("popops::ScatterOperand", VerticesWithRows(*s), 60, 16);
  const auto part = [s](const Box& box) { return PartOfRows(*s, box.begin[0]); };
  group.reads.push_back({{Kind::kInput, 0}, part});
  group.writes.push_back({{Kind::kOutput, 0}, part});
  group.compute = [](HostContext& host, const Box&, const std::vector<HostTensor>& reads,
                     const std::vector<HostTensor>& writes) { CopyTensor(host, reads[0], writes[0]); };
  group.cycles = [s](const TargetModel& target, const Box& box) {
    const auto bytes =
        static_cast<std::uint64_t>(PartOfRows(*s, box.begin[0]).num_elements()) * SizeOf(s->p.type);
    return target.local_copy_call_cycles + bytes / target.memcpy_bytes_per_cycle;
  };
  return group;
}

VertexGroup CopyUpdates(const Shared& s, std::int64_t pass) {
  VertexGroup group = MakeVertexGroup("popops::ScatterUpdates", VerticesWithIndices(*s, pass), 60, 16);
  group.reads.push_back({{Kind::kInput, 2}, [s](const Box& box) { return UpdatesOf(*s, box); }});
  group.writes.push_back(
      {{Kind::kTemporary, kUpdates}, [s](const Box& box) { return HeldUpdatesOf(*s, box); }});
  group.compute = [](HostContext&, const Box&, const std::vector<HostTensor>& reads,
                     const std::vector<HostTensor>& writes) {
    std::memcpy(writes[0].data, reads[0].data,
                static_cast<std::size_t>(reads[0].num_elements()) * SizeOf(reads[0].type));
  };
  group.cycles = [](const TargetModel&, const Box&) { return std::uint64_t{0}; };
  group.is_copy = true;
  return group;
}

// Combines the updates of the next block of each part of the group of a share.
VertexGroup SumBlock(const Shared& s, std::int64_t pass, const std::shared_ptr<const ScatterProblem>& p,
                     ScalarOp op) {
  VertexGroup group = MakeVertexGroup("popops::ScatterSumBlock", VerticesWithIndices(*s, pass), 500, 40);
  const auto next = [s](const Box& box) { return RowOf(box.begin[0], s->workers); };
  group.reads.push_back({{Kind::kTemporary, kEntries},
                         [](const Box& box) { return RowOf(box.begin[0], PlacesOf(box, kBatch)); }});
  group.reads.push_back(
      {{Kind::kTemporary, kEnds}, [s](const Box& box) { return RowOf(box.begin[0], s->tables()); }});
  if (s->r.apart) {
    group.reads.push_back(
        {{Kind::kTemporary, kUpdates}, [s](const Box& box) { return HeldUpdatesOf(*s, box); }});
  } else {
    group.reads.push_back({{Kind::kInput, 2}, [s](const Box& box) { return UpdatesOf(*s, box); }});
  }
  group.reads.push_back({{Kind::kTemporary, kNext}, next});
  const auto sums = [s](const Box& box) {
    Box region = Box::Whole(SumsShape(*s));
    region.begin[0] = box.begin[0] % s->r.lookups.num_parts();
    region.end[0] = region.begin[0] + 1;
    region.begin[1] = box.begin[1] << s->d.groupShift;
    region.end[1] = std::min(region.begin[1] + s->r.group_tiles(), s->r.rows.parts);
    if (s->r.column_dim > 0) {
      region.begin[2 + s->r.column_dim] = box.begin[2];
      region.end[2 + s->r.column_dim] = box.end[2];
    }
    return region;
  };
  group.writes.push_back({{Kind::kTemporary, kSums}, sums});
  group.writes.push_back({{Kind::kTemporary, kNext}, next});
  WindowDims dims;
  dims.offset_dims = {1};
  dims.collapsed_dims = {0};
  dims.start_index_map = {0};
  dims.index_vector_dim = 1;
  group.compute = [s, p, op, window = IndexedWindow::Resolve(dims, 2, 1, 2)](
                      HostContext& host, const Box& box, const std::vector<HostTensor>& reads,
                      const std::vector<HostTensor>& writes) {
    const std::int64_t width = s->WidthOf(box), places = PlacesOf(box, kBatch);
    const std::int64_t rows = writes[0].num_elements() / width;
    const std::size_t size = SizeOf(s->p.type), row = static_cast<std::size_t>(width) * size;
    const std::uint64_t neutral = *hlo::NeutralBits(op, s->p.type);
    for (std::size_t at = 0; at < static_cast<std::size_t>(rows) * row; at += size)
      std::memcpy(writes[0].as<char>() + at, &neutral, size);
    auto* const index = host.scratch.Allocate<std::int64_t>(static_cast<std::size_t>(places));
    auto* const updates = host.scratch.Allocate<char>(static_cast<std::size_t>(places) * row);
    const auto* const entries = reads[0].as<std::uint32_t>();
    std::int64_t found = 0;
    for (std::int64_t worker = 0; worker < s->workers; ++worker) {
      const std::uint32_t bucket = reads[3].as<std::uint32_t>()[worker];
      const auto* const ends = reads[1].as<std::uint32_t>() + worker * s->d.buckets;
      const std::int64_t begin = bucket == 0 ? ShareOf(worker, s->workers, places).first : ends[bucket - 1];
      for (std::int64_t i = begin; i < ends[bucket]; ++i, ++found) {
        index[found] = entries[i] >> s->d.placeBits;
        const std::size_t from = entries[i] & ((std::uint64_t{1} << s->d.placeBits) - 1);
        std::memcpy(updates + static_cast<std::size_t>(found) * row, reads[2].as<char>() + from * row, row);
      }
      writes[1].as<std::uint32_t>()[worker] = bucket + 1;
    }
    if (found == 0) return;
    const HostTensor indices = DenseVector(DType::kS64, found, index);
    const HostTensor sum = RowsAt(s->p.type, writes[0].data, rows, width);
    const HostTensor update = RowsAt(s->p.type, updates, found, width);
    p->kernel->Run(host, window, WholePlacement({rows, width}, {1, width}), false, &sum, indices, &update,
                   &sum);
  };
  group.cycles = [s, p, sums](const TargetModel& target, const Box& box) {
    return SumCycles(target, p->update, p->type, PlacesOf(box, kBatch), s->r.shares * s->r.trips,
                     s->WidthOf(box), sums(box).num_elements());
  };
  return group;
}

// Adds the sums of the next block of a part to it.
VertexGroup AddSums(const Shared& s, const Expression& update, const TargetModel& target) {
  const ElementwiseCost cost(update);
  VertexGroup group =
      MakeVertexGroup("popops::ScatterAddSums", VerticesWithRows(*s), cost.CodeBytes(target), 32);
  const auto part = [s](const Box& box) { return PartOfRows(*s, box.begin[0]); };
  const auto trips = [s](const Box& box) { return RowOf(box.begin[0], s->workers); };
  group.reads.push_back({{Kind::kTemporary, kSums}, [s](const Box& box) {
                           Box region = Box::Whole(SumsShape(*s));
                           region.begin[1] = box.begin[0];
                           region.end[1] = box.end[0];
                           return region;
                         }});
  group.reads.push_back({{Kind::kTemporary, kTrip}, trips});
  group.reads.push_back({{Kind::kOutput, 0}, part});
  group.writes.push_back({{Kind::kOutput, 0}, part});
  group.writes.push_back({{Kind::kTemporary, kTrip}, trips});
  group.compute = [s, kernel = std::make_shared<const ElementwiseKernel>(update)](
                      HostContext& host, const Box&, const std::vector<HostTensor>& reads,
                      const std::vector<HostTensor>& writes) {
    CopyTensor(host, reads[2], writes[0]);
    const std::uint32_t number = reads[1].as<std::uint32_t>()[0];
    std::fill_n(writes[1].as<std::uint32_t>(), s->workers, number + 1);
    const std::size_t size = SizeOf(s->p.type);
    const std::int64_t n = s->r.block() * s->width, first = number * n;
    const std::int64_t taken = std::min(n, writes[0].num_elements() - first);
    if (taken <= 0) return;
    HostTensor own =
        RowsAt(s->p.type, writes[0].as<char>() + static_cast<std::size_t>(first) * size, 1, taken);
    for (std::int64_t i = 0; i < reads[0].shape[0]; ++i) {
      const HostTensor sum =
          RowsAt(s->p.type, reads[0].as<char>() + static_cast<std::size_t>(i * n) * size, 1, taken);
      const HostTensor in[2] = {own, sum};
      kernel->Run(host, in, &own);
    }
  };
  group.cycles = [s, cost](const TargetModel& model, const Box&) {
    return TotalCycles(model, cost, s->r.lookups.num_parts(), s->r.block() * s->width);
  };
  return group;
}

}  // namespace

GatherProblem RowsOfScatter(const ScatterProblem& p, const View& result, const Mapping* mapping,
                            const View& updates, const Mapping* updates_mapping, DType index_type,
                            std::int64_t buffer_limit) {
  GatherProblem rows;
  rows.window = p.window;
  rows.type = p.type;
  rows.index_type = index_type;
  rows.operand = p.operand;
  rows.indices = p.indices;
  rows.out = p.updates;
  rows.slice_sizes = p.slice_sizes;
  rows.view = result;
  rows.mapping = mapping;
  rows.out_view = updates;
  rows.out_mapping = updates_mapping;
  rows.buffer_limit = buffer_limit;
  return rows;
}

std::optional<GatherRounds> ChooseScatterRounds(const ScatterProblem& p, const Expression& update,
                                                const GatherProblem& rows, const TargetModel& target,
                                                unsigned num_tiles) {
  if (p.num_operands != 1 || !SelectsRows(rows, target, num_tiles)) return std::nullopt;
  if (p.operand.size() + 1 >= kMaxRank) return std::nullopt;  // sums have two dimensions more
  const Instruction* const only = hlo::SingleOperation(update);
  if (only == nullptr || !hlo::NeutralBits(only->op, p.type).has_value()) return std::nullopt;
  GatherRounds r;
  const std::optional<Cut> own = RowsInPlace(rows, num_tiles, &r.first_tile);
  if (!own) return std::nullopt;
  r.rows = *own;
  r.num_tiles = num_tiles;
  r.in_place = true;
  r.column_dim = ColumnDim(rows);
  r.columns = ColumnsOf(rows, r.column_dim);
  std::int64_t width = 1;
  for (std::size_t d = 1; d < p.operand.size(); ++d) width *= p.operand[d];
  const auto size = static_cast<std::int64_t>(SizeOf(p.type));
  const std::int64_t most = BytesForRounds(rows, target, num_tiles);
  const std::int64_t grains = CeilDivide(r.columns.extent, r.columns.grain);
  const unsigned part_bits = BitsOf(r.rows.Largest());
  const ElementwiseCost cost(update);
  std::optional<GatherRounds> best;
  const auto try_blocks = [&] {
    const std::int64_t updates = PlacesOfPass(r);
    for (r.block_shift = 0; r.block_shift <= std::min(kMostBlockShift, part_bits); ++r.block_shift) {
      if (r.block() * width * size % kWord != 0 && r.block_shift < part_bits) continue;
      if (r.group_shift + r.block_shift + BitsOf(updates) > 32) break;
      r.trips = CeilDivide(r.rows.Largest(), r.block());
      Estimate(p, rows, cost, target, updates, width, &r);
      if (r.bytes <= most && (!best || r.cycles < best->cycles)) best = r;
    }
  };
  for (r.columns.parts = 1; r.columns.parts <= std::min(grains, kMostShares); r.columns.parts *= 2) {
    for (r.group_shift = BitsOf(r.rows.parts);; --r.group_shift) {
      r.groups = r.shares = CeilDivide(r.rows.parts, r.group_tiles());
      const std::int64_t tiles = num_tiles / (r.shares * r.columns.parts);
      if (r.shares > kMostShares || tiles < 2) break;
      r.lookups = r.picks = SpreadBatch(rows, tiles, num_tiles);
      r.columns.stride = r.shares * r.lookups.num_parts();
      r.apart = !HaveUpdates(rows, r);
      for (r.passes = 1; r.passes <= kMostPasses; r.passes *= 2) try_blocks();
      if (r.group_shift == 0) break;
    }
  }
  return best;
}

TilePlan PlanScatterRounds(const std::shared_ptr<const ScatterProblem>& p, const Expression& update,
                           const GatherProblem& rows, const GatherRounds& r, bool in_place,
                           const TargetModel& target) {
  auto made = std::make_shared<Rounds>(rows, r, target);
  made->d = DescribeScatterRounds(rows, r);
  const Shared shared = std::move(made);
  const std::int64_t vertices = r.lookups.num_parts();
  TilePlan plan;
  plan.temporaries = OrderTemporaries(*shared);
  plan.temporaries.push_back(
      SpreadRowsOf(DType::kU32, r.rows.parts, shared->workers, r.first_tile, r.rows.stride, r.num_tiles));
  Grid sums;
  sums.num_tiles = r.num_tiles;
  sums.Append(vertices, vertices, 1);
  sums.Append(r.rows.parts, r.groups, vertices, r.group_tiles());
  sums.Append(r.block(), 1, 0);
  for (std::size_t d = 1; d < p->operand.size(); ++d) {
    if (d == r.column_dim) {
      r.columns.AppendTo(&sums);
    } else {
      sums.Append(p->operand[d], 1, 0);
    }
  }
  plan.temporaries.push_back({p->type, sums});
  if (r.apart) {
    const std::int64_t columns = shared->width / r.columns.extent * r.columns.Largest();
    plan.temporaries.push_back(SpreadRowsOf(p->type, r.columns.parts * r.columns.stride,
                                            shared->places * columns, 0, 1, r.num_tiles));
  }

  const ScalarOp op = hlo::SingleOperation(update)->op;
  if (!in_place) plan.supersteps.push_back({{CopyOperand(shared)}});
  for (std::int64_t pass = 0; pass < r.passes; ++pass) {
    plan.supersteps.push_back({{OrderIndices(shared, pass), StartTrips(shared, shared->workers)}});
    if (r.apart) plan.supersteps.push_back({{CopyUpdates(shared, pass)}});
    const std::size_t begin = plan.supersteps.size();
    plan.supersteps.push_back({{SumBlock(shared, pass, p, op)}});
    plan.supersteps.push_back({{AddSums(shared, update, target)}});
    plan.loops.push_back({begin, begin + 2, static_cast<std::uint64_t>(r.trips)});
  }
  return plan;
}

hlo::GatherRounds DescribeScatterRounds(const GatherProblem& rows, const GatherRounds& rounds) {
  hlo::GatherRounds described = DescribeRounds(rows, rounds);
  described.drops = true;
  return described;
}

}  // namespace ipu_model
