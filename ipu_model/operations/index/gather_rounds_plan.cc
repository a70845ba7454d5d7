// The vertices of a gather whose table passes by its indices.
#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "core/target/target_model.h"
#include "kernels/copy/strided_copy.h"
#include "operations/index/index_cost.h"
#include "operations/index/rounds_order.h"
#include "operations/vertex_groups.h"

namespace ipu_model {
namespace {

using namespace rounds;
using Kind = OperandRef::Kind;
using Shared = SharedRounds;

// Results of shares, if rows are picked from them, and the table's rows, if they are copied, come last.
unsigned Partial(const Rounds&) { return kOthers; }
unsigned Held(const Rounds& s) { return kOthers + (s.r.apart ? 1 : 0); }

VertexGroup CopyRows(const Shared& s) {
  VertexGroup group = MakeVertexGroup("popops::GatherRows", VerticesWithRows(*s), 60, 16);
  const auto part = [s](const Box& box) { return PartOfRows(*s, box.begin[0]); };
  group.reads.push_back({{Kind::kInput, 0}, part});
  group.writes.push_back({{Kind::kTemporary, Held(*s)}, part});
  group.compute = [](HostContext& host, const Box&, const std::vector<HostTensor>& reads,
                     const std::vector<HostTensor>& writes) { CopyTensor(host, reads[0], writes[0]); };
  group.cycles = [](const TargetModel&, const Box&) { return std::uint64_t{0}; };
  group.is_copy = true;
  return group;
}

// Makes ready the next block of a part, which may end before the block does.
VertexGroup TakeBlock(const Shared& s) {
  VertexGroup group = MakeVertexGroup("popops::GatherTakeBlock", VerticesWithRows(*s), 100, 20);
  const OperandRef rows =
      s->r.in_place ? OperandRef{Kind::kInput, 0} : OperandRef{Kind::kTemporary, Held(*s)};
  const auto trip = [](const Box& box) { return RowOf(box.begin[0], 1); };
  group.reads.push_back({rows, [s](const Box& box) { return PartOfRows(*s, box.begin[0]); }});
  group.reads.push_back({{Kind::kTemporary, kTrip}, trip});
  group.writes.push_back({{Kind::kTemporary, kBlocks}, [s](const Box& box) {
                            Box region = Box::Whole(BlocksShape(*s));
                            region.begin[0] = box.begin[0];
                            region.end[0] = box.end[0];
                            return region;
                          }});
  group.writes.push_back({{Kind::kTemporary, kTrip}, trip});
  group.compute = [s](HostContext&, const Box&, const std::vector<HostTensor>& reads,
                      const std::vector<HostTensor>& writes) {
    const std::size_t size = SizeOf(s->p.type);
    const std::int64_t n = s->r.block() * s->width;
    const std::uint32_t number = *reads[1].as<std::uint32_t>();
    const std::int64_t begin = number * n;
    const std::int64_t taken = std::clamp<std::int64_t>(reads[0].num_elements() - begin, 0, n);
    char* const to = writes[0].as<char>();
    std::memset(to, 0, static_cast<std::size_t>(n) * size);
    if (taken > 0)
      std::memcpy(to, reads[0].as<char>() + static_cast<std::size_t>(begin) * size,
                  static_cast<std::size_t>(taken) * size);
    *writes[1].as<std::uint32_t>() = number + 1;
  };
  group.cycles = [s](const TargetModel& target, const Box&) {
    return TakeBlockCycles(target, s->p.type, s->r.block() * s->width);
  };
  return group;
}

// Looks up the indices whose rows are in the block of step `step` of a trip.
VertexGroup LookUpBlock(const Shared& s, std::int64_t pass, std::int64_t step) {
  VertexGroup group = MakeVertexGroup("popops::GatherLookUpBlock", VerticesWithIndices(*s, pass), 200, 32);
  const auto next = [s](const Box& box) { return RowOf(box.begin[0], s->workers); };
  const auto own = [s](const Box& box) {
    Box region = OutOf(*s, box, kBatch);
    if (const std::size_t columns = s->r.ColumnsOfResult(s->p); columns > 0) {
      region.begin[columns] = box.begin[2];
      region.end[columns] = box.end[2];
    }
    if (!s->r.apart) return region;
    region.begin.insert(region.begin.begin(), box.begin[1]);
    region.end.insert(region.end.begin(), box.end[1]);
    return region;
  };
  const OperandRef out =
      s->r.apart ? OperandRef{Kind::kTemporary, Partial(*s)} : OperandRef{Kind::kOutput, 0};
  group.reads.push_back({{Kind::kTemporary, kBlocks}, [s, step](const Box& box) {
                           const std::int64_t first = (step * s->r.shares + box.begin[1]) << s->d.groupShift;
                           Box region = Box::Whole(BlocksShape(*s));
                           region.begin[0] = first;
                           region.end[0] = std::min(first + s->r.group_tiles(), s->r.rows.parts);
                           if (s->r.column_dim > 0) {
                             region.begin[1 + s->r.column_dim] = box.begin[2];
                             region.end[1 + s->r.column_dim] = box.end[2];
                           }
                           return region;
                         }});
  group.reads.push_back({{Kind::kTemporary, kEntries},
                         [](const Box& box) { return RowOf(box.begin[0], PlacesOf(box, kBatch)); }});
  group.reads.push_back(
      {{Kind::kTemporary, kEnds}, [s](const Box& box) { return RowOf(box.begin[0], s->tables()); }});
  group.reads.push_back({{Kind::kTemporary, kNext}, next});
  group.reads.push_back({out, own});
  group.writes.push_back({out, own});
  group.writes.push_back({{Kind::kTemporary, kNext}, next});
  group.compute = [s](HostContext& host, const Box& box, const std::vector<HostTensor>& reads,
                      const std::vector<HostTensor>& writes) {
    CopyTensor(host, reads[4], writes[0]);
    const std::size_t row = static_cast<std::size_t>(s->WidthOf(box)) * SizeOf(s->p.type);
    const std::int64_t places = PlacesOf(box, kBatch);
    const auto* const entries = reads[1].as<std::uint32_t>();
    for (std::int64_t worker = 0; worker < s->workers; ++worker) {
      const std::uint32_t bucket = reads[3].as<std::uint32_t>()[worker];
      const auto* const ends = reads[2].as<std::uint32_t>() + worker * s->d.buckets;
      const std::int64_t begin = bucket == 0 ? ShareOf(worker, s->workers, places).first : ends[bucket - 1];
      for (std::int64_t i = begin; i < ends[bucket]; ++i) {
        const std::size_t from = entries[i] >> s->d.placeBits;
        const std::size_t to = entries[i] & ((1u << s->d.placeBits) - 1);
        std::memcpy(writes[0].as<char>() + to * row, reads[0].as<char>() + from * row, row);
      }
      writes[1].as<std::uint32_t>()[worker] = bucket + 1;
    }
  };
  group.cycles = [s](const TargetModel& target, const Box& box) {
    return LookUpBlockCycles(target, s->p.type, PlacesOf(box, kBatch),
                             s->r.shares * static_cast<std::int64_t>(s->d.buckets), s->WidthOf(box));
  };
  return group;
}

// Takes each row of the result from the share whose groups have it.
VertexGroup PickShare(const Shared& s) {
  VertexGroup group = MakeVertexGroup("popops::GatherPickShare", s->r.picks.Vertices(), 250,
                                      32 + 4 * static_cast<std::uint64_t>(s->d.rowBegins.size()));
  group.reads.push_back({{Kind::kTemporary, Partial(*s)}, [s](const Box& box) {
                           Box region = OutOf(*s, box, 0);
                           region.begin.insert(region.begin.begin(), 0);
                           region.end.insert(region.end.begin(), s->r.shares);
                           return region;
                         }});
  group.reads.push_back({{Kind::kInput, 1}, [s](const Box& box) { return IndicesOf(*s, box, 0); }});
  group.writes.push_back({{Kind::kOutput, 0}, [s](const Box& box) { return OutOf(*s, box, 0); }});
  group.compute = [s](HostContext&, const Box& box, const std::vector<HostTensor>& reads,
                      const std::vector<HostTensor>& writes) {
    const std::size_t row = static_cast<std::size_t>(s->width) * SizeOf(s->p.type);
    const std::int64_t places = PlacesOf(box, 0);
    for (std::int64_t i = 0; i < places; ++i) {
      const std::int64_t share = (PartOf(s->d, RowAt(*s, reads[1], i)) >> s->d.groupShift) % s->d.shares;
      std::memcpy(writes[0].as<char>() + static_cast<std::size_t>(i) * row,
                  reads[0].as<char>() + static_cast<std::size_t>(share * places + i) * row, row);
    }
  };
  group.cycles = [s](const TargetModel& target, const Box& box) {
    return PickShareCycles(target, s->p.type, PlacesOf(box, 0), s->width, s->p.window.num_wraps);
  };
  return group;
}

}  // namespace

TilePlan PlanGatherRounds(const GatherProblem& p, const GatherRounds& r, const TargetModel& target) {
  const auto shared = std::make_shared<const Rounds>(p, r, target);
  const std::int64_t parts = r.rows.parts, stride = r.rows.stride;
  TilePlan plan;
  plan.temporaries = OrderTemporaries(*shared);
  plan.temporaries.push_back(SpreadRowsOf(DType::kU32, parts, 1, r.first_tile, stride, r.num_tiles));
  Grid blocks;
  blocks.first_tile = r.first_tile;
  blocks.num_tiles = r.num_tiles;
  blocks.Append(parts, parts, stride);
  const Shape shape = BlocksShape(*shared);
  for (std::size_t d = 1; d < shape.size(); ++d) blocks.Append(shape[d], 1, 0);
  plan.temporaries.push_back({p.type, blocks});
  if (r.apart) {
    Grid partial;
    partial.num_tiles = r.num_tiles;
    partial.Append(r.shares, r.shares, r.lookups.num_parts());
    for (std::size_t d = 0; d < p.out.size(); ++d) {
      if (d < r.lookups.shape.size()) {
        partial.Append(p.out[d], r.lookups.parts[d], r.lookups.tile_stride[d], r.lookups.grain[d]);
      } else if (d == r.ColumnsOfResult(p)) {
        r.columns.AppendTo(&partial);
      } else {
        partial.Append(p.out[d], 1, 0);
      }
    }
    plan.temporaries.push_back({p.type, partial});
  }
  if (!r.in_place) {
    Grid rows;
    rows.first_tile = r.first_tile;
    rows.num_tiles = r.num_tiles;
    r.rows.AppendTo(&rows);
    for (std::size_t d = 1; d < p.operand.size(); ++d) rows.Append(p.operand[d], 1, 0);
    plan.temporaries.push_back({p.type, rows});
  }

  if (!r.in_place) plan.supersteps.push_back({{CopyRows(shared)}});
  for (std::int64_t pass = 0; pass < r.passes; ++pass) {
    plan.supersteps.push_back({{OrderIndices(shared, pass), StartTrips(shared, 1)}});
    const std::size_t first = plan.supersteps.size();
    plan.supersteps.push_back({{TakeBlock(shared)}});
    for (std::int64_t step = 0; step < r.steps(); ++step)
      plan.supersteps.push_back({{LookUpBlock(shared, pass, step)}});
    plan.loops.push_back({first, plan.supersteps.size(), static_cast<std::uint64_t>(r.trips)});
  }
  if (r.apart) plan.supersteps.push_back({{PickShare(shared)}});
  return plan;
}

}  // namespace ipu_model
