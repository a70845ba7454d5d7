// The vertices of a gather whose table passes by its indices.
#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "core/target_model.h"
#include "kernels/copy/slice.h"
#include "kernels/host/integer_division.h"
#include "operations/index/gather_rounds.h"
#include "operations/index/index_cost.h"
#include "operations/vertex_groups.h"

namespace ipu_model {
namespace {

using Kind = OperandRef::Kind;

// The temporaries, by number. The expansion (hlo/index/gather_rounds.cc) knows them by these.
enum : unsigned { kEntries, kEnds, kNext, kTrip, kBlocks, kOthers };

// What the vertices share.
struct Rounds {
  GatherProblem p;
  GatherRounds r;
  hlo::GatherRounds d;
  std::int64_t workers, places, width;  // places: the most indices of a vertex in a pass

  std::size_t batch_rank() const { return r.picks.shape.size(); }
  unsigned TileOfPart(std::int64_t part) const {
    return static_cast<unsigned>((r.first_tile + r.rows.TileOffset(part)) % r.num_tiles);
  }
  // Results of shares, if rows are picked from them, and the table's rows, if they are copied, come last.
  unsigned partial() const { return kOthers; }
  unsigned held() const { return kOthers + (r.apart ? 1 : 0); }
  // The elements of a row that a vertex with indices looks up.
  std::int64_t WidthOf(const Box& box) const {
    return width / r.columns.extent * (box.end[2] - box.begin[2]);
  }
  std::int64_t tables() const { return workers * static_cast<std::int64_t>(d.buckets); }
};
using Shared = std::shared_ptr<const Rounds>;

// Boxes of the vertices with indices: the number of the vertex, its share, its columns, then the batch
// dimensions, from kBatch on.
constexpr std::size_t kBatch = 3;
std::vector<Vertex> VerticesWithIndices(const Rounds& s, std::int64_t pass) {
  const auto [dim, extent] = CutOfPasses(s.r);
  const std::vector<Vertex> one = s.r.lookups.Vertices();
  std::vector<Vertex> vertices;
  std::int64_t next = 0;
  for (std::int64_t set = 0; set < s.r.shares * s.r.columns.parts; ++set) {
    const std::int64_t share = set % s.r.shares, columns = set / s.r.shares;
    for (const Vertex& v : one) {
      const std::int64_t number = next++;
      Box part = v.box;
      if (s.r.passes > 1) {
        part.begin[dim] = std::min(v.box.end[dim], v.box.begin[dim] + pass * extent);
        part.end[dim] = std::min(v.box.end[dim], part.begin[dim] + extent);
        if (part.num_elements() == 0) continue;
      }
      Vertex& vertex = vertices.emplace_back();
      vertex.tile = static_cast<unsigned>(number);
      vertex.box = {{number, share, s.r.columns.Begin(columns)},
                    {number + 1, share + 1, s.r.columns.Begin(columns + 1)}};
      vertex.box.begin.insert(vertex.box.begin.end(), part.begin.begin(), part.begin.end());
      vertex.box.end.insert(vertex.box.end.end(), part.end.begin(), part.end.end());
    }
  }
  return vertices;
}

// Boxes of the vertices that send: the number of the part.
std::vector<Vertex> VerticesWithRows(const Rounds& s) {
  std::vector<Vertex> vertices;
  for (std::int64_t part = 0; part < s.r.rows.parts; ++part)
    vertices.push_back({s.TileOfPart(part), {{part}, {part + 1}}});
  return vertices;
}

// The part of the result, or of the partial ones, with these positions of the batch.
Box OutOf(const Rounds& s, const Box& box, std::size_t first) {
  Box region = Box::Whole(s.p.out);
  for (std::size_t b = 0; b < s.batch_rank(); ++b) {
    region.begin[b] = box.begin[first + b];
    region.end[b] = box.end[first + b];
  }
  return region;
}

Box IndicesOf(const Rounds& s, const Box& box, std::size_t first) {
  Box region = Box::Whole(s.p.indices);
  for (std::size_t b = 0; b < s.batch_rank(); ++b) {
    const auto dim = static_cast<std::size_t>(s.p.window.index_dim[b]);
    region.begin[dim] = box.begin[first + b];
    region.end[dim] = box.end[first + b];
  }
  return region;
}

std::int64_t PlacesOf(const Box& box, std::size_t first) {
  std::int64_t n = 1;
  for (std::size_t d = first; d < box.begin.size(); ++d) n *= box.end[d] - box.begin[d];
  return n;
}

Box PartOfRows(const Rounds& s, std::int64_t part) {
  Box region = Box::Whole(s.p.operand);
  region.begin[0] = s.r.rows.Begin(part);
  region.end[0] = s.r.rows.Begin(part + 1);
  return region;
}

// The blocks of all parts: parts, rows of a block, and the columns.
Shape BlocksShape(const Rounds& s) {
  Shape shape = {s.r.rows.parts, s.r.block()};
  shape.insert(shape.end(), s.p.operand.begin() + 1, s.p.operand.end());
  return shape;
}

// Row `v` of a temporary, up to `n`.
Box RowOf(std::int64_t v, std::int64_t n) { return {{v, 0}, {v + 1, n}}; }

Temporary Spread(DType type, std::int64_t vertices, std::int64_t each, unsigned first_tile,
                 std::int64_t stride, unsigned num_tiles) {
  return {type, {{vertices, each}, {vertices, 1}, {1, 1}, {stride, 0}, first_tile, num_tiles}};
}

// The places of a worker, as shareOf has them (hlo/codelets/common.hpp).
std::pair<std::int64_t, std::int64_t> ShareOf(std::int64_t worker, std::int64_t workers,
                                              std::int64_t places) {
  const std::int64_t each = CeilDivide(CeilDivide(places, 8), workers) * 8;
  return {std::min(places, worker * each), std::min(places, (worker + 1) * each)};
}

// Where a row is sent: the number of its part and its place there.
std::int64_t PartOf(const hlo::GatherRounds& d, std::int64_t row) {
  return std::upper_bound(d.rowBegins.begin(), d.rowBegins.end(), static_cast<std::size_t>(row)) -
         d.rowBegins.begin() - 1;
}

std::int64_t RowAt(const Rounds& s, const HostTensor& indices, std::int64_t i) {
  const auto size = static_cast<std::int64_t>(SizeOf(indices.type));
  const std::int64_t index = ReadIndex(indices.type, indices.as<char>() + i * size);
  return std::clamp<std::int64_t>(index < 0 ? index + s.d.wrap : index, 0, s.d.limit);
}

VertexGroup CopyRows(const Shared& s) {
  VertexGroup group = MakeVertexGroup("popops::GatherRows", VerticesWithRows(*s), 60, 16);
  const auto part = [s](const Box& box) { return PartOfRows(*s, box.begin[0]); };
  group.reads.push_back({{Kind::kInput, 0}, part});
  group.writes.push_back({{Kind::kTemporary, s->held()}, part});
  group.compute = [](HostContext& host, const Box&, const std::vector<HostTensor>& reads,
                     const std::vector<HostTensor>& writes) { CopyTensor(host, reads[0], writes[0]); };
  group.cycles = [](const TargetModel&, const Box&) { return std::uint64_t{0}; };
  group.is_copy = true;
  return group;
}

VertexGroup Start(const Shared& s) {
  VertexGroup group = MakeVertexGroup("popops::GatherStart", VerticesWithRows(*s), 20, 8);
  group.writes.push_back({{Kind::kTemporary, kTrip}, [](const Box& box) { return RowOf(box.begin[0], 1); }});
  group.compute = [](HostContext&, const Box&, const std::vector<HostTensor>&,
                     const std::vector<HostTensor>& writes) { *writes[0].as<std::uint32_t>() = 0; };
  group.cycles = [](const TargetModel& target, const Box&) {
    return std::uint64_t{target.supervisor_overhead};
  };
  return group;
}

// Puts the indices of each worker into the order of the blocks that have their rows: a count, then a sum of
// the counts, then each to its place. An entry is the row's place in the block and the index' place on the
// tile.
VertexGroup Order(const Shared& s, std::int64_t pass) {
  VertexGroup group = MakeVertexGroup("popops::GatherOrder", VerticesWithIndices(*s, pass), 500,
                                      48 + 4 * static_cast<std::uint64_t>(s->d.rowBegins.size()));
  group.reads.push_back({{Kind::kInput, 1}, [s](const Box& box) { return IndicesOf(*s, box, kBatch); }});
  group.writes.push_back({{Kind::kTemporary, kEntries},
                          [](const Box& box) { return RowOf(box.begin[0], PlacesOf(box, kBatch)); }});
  group.writes.push_back(
      {{Kind::kTemporary, kEnds}, [s](const Box& box) { return RowOf(box.begin[0], s->tables()); }});
  group.writes.push_back(
      {{Kind::kTemporary, kNext}, [s](const Box& box) { return RowOf(box.begin[0], s->workers); }});
  group.compute = [s](HostContext&, const Box& box, const std::vector<HostTensor>& reads,
                      const std::vector<HostTensor>& writes) {
    const hlo::GatherRounds& d = s->d;
    const std::int64_t places = PlacesOf(box, kBatch), share = box.begin[1];
    auto* const entries = writes[0].as<std::uint32_t>();
    std::fill_n(entries, places, 0);  // a share leaves out the indices of others
    std::fill_n(writes[2].as<std::uint32_t>(), s->workers, 0);
    const auto find = [&](std::int64_t i, std::int64_t* place) -> std::int64_t {
      const std::int64_t row = RowAt(*s, reads[0], i), part = PartOf(d, row);
      const std::int64_t group_of_part = part >> d.groupShift;
      if (group_of_part % d.shares != share) return -1;
      const std::int64_t at = row - static_cast<std::int64_t>(d.rowBegins[static_cast<std::size_t>(part)]);
      *place = ((part - (group_of_part << d.groupShift)) << d.blockShift) +
               (at & ((std::int64_t{1} << d.blockShift) - 1));
      return (at >> d.blockShift) * d.steps + group_of_part / d.shares;
    };
    for (std::int64_t worker = 0; worker < s->workers; ++worker) {
      auto* const ends = writes[1].as<std::uint32_t>() + worker * d.buckets;
      const auto [begin, end] = ShareOf(worker, s->workers, places);
      std::fill_n(ends, d.buckets, 0);
      std::int64_t place = 0;
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t bucket = find(i, &place);
        if (bucket >= 0) ++ends[bucket];
      }
      auto at = static_cast<std::uint32_t>(begin);
      for (unsigned b = 0; b < d.buckets; ++b) at += std::exchange(ends[b], at);
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t bucket = find(i, &place);
        if (bucket >= 0) entries[ends[bucket]++] = static_cast<std::uint32_t>(place << d.placeBits | i);
      }
    }
  };
  group.cycles = [s](const TargetModel& target, const Box& box) {
    return OrderLookupsCycles(target, PlacesOf(box, kBatch), s->d.buckets, s->p.window.num_wraps);
  };
  return group;
}

// Makes ready the next block of a part, which may end before the block does.
VertexGroup TakeBlock(const Shared& s) {
  VertexGroup group = MakeVertexGroup("popops::GatherTakeBlock", VerticesWithRows(*s), 100, 20);
  const OperandRef rows =
      s->r.in_place ? OperandRef{Kind::kInput, 0} : OperandRef{Kind::kTemporary, s->held()};
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
      s->r.apart ? OperandRef{Kind::kTemporary, s->partial()} : OperandRef{Kind::kOutput, 0};
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
  group.reads.push_back({{Kind::kTemporary, s->partial()}, [s](const Box& box) {
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
  const auto shared = std::make_shared<Rounds>();
  shared->p = p;
  shared->r = r;
  shared->d = DescribeRounds(p, r);
  shared->workers = target.worker_contexts;
  shared->places = PlacesOfPass(r);
  shared->width = 1;
  for (std::size_t d = 1; d < p.operand.size(); ++d) shared->width *= p.operand[d];
  const std::int64_t vertices = r.columns.parts * r.columns.stride, parts = r.rows.parts,
                     stride = r.rows.stride;
  TilePlan plan;
  plan.temporaries = {Spread(DType::kU32, vertices, shared->places, 0, 1, r.num_tiles),
                      Spread(DType::kU32, vertices, shared->tables(), 0, 1, r.num_tiles),
                      Spread(DType::kU32, vertices, shared->workers, 0, 1, r.num_tiles),
                      Spread(DType::kU32, parts, 1, r.first_tile, stride, r.num_tiles)};
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
    plan.supersteps.push_back({{Order(shared, pass), Start(shared)}});
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
