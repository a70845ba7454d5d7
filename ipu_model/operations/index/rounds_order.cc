#include "operations/index/rounds_order.h"

#include <algorithm>

#include "core/target/target_model.h"
#include "kernels/copy/slice.h"
#include "kernels/host/integer_division.h"
#include "operations/index/index_cost.h"
#include "operations/vertex_groups.h"

namespace ipu_model {

using namespace rounds;
using Kind = OperandRef::Kind;

Rounds::Rounds(const GatherProblem& problem, const GatherRounds& rounds, const TargetModel& target)
    : p(problem),
      r(rounds),
      d(DescribeRounds(problem, rounds)),
      workers(target.worker_contexts),
      places(PlacesOfPass(rounds)),
      width(1) {
  for (std::size_t k = 1; k < p.operand.size(); ++k) width *= p.operand[k];
}

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

std::vector<Vertex> VerticesWithRows(const Rounds& s) {
  std::vector<Vertex> vertices;
  for (std::int64_t part = 0; part < s.r.rows.parts; ++part)
    vertices.push_back({s.TileOfPart(part), {{part}, {part + 1}}});
  return vertices;
}

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

Shape BlocksShape(const Rounds& s) {
  Shape shape = {s.r.rows.parts, s.r.block()};
  shape.insert(shape.end(), s.p.operand.begin() + 1, s.p.operand.end());
  return shape;
}

Temporary SpreadRowsOf(DType type, std::int64_t vertices, std::int64_t each, unsigned first_tile,
                       std::int64_t stride, unsigned num_tiles) {
  return {type, {{vertices, each}, {vertices, 1}, {1, 1}, {stride, 0}, first_tile, num_tiles}};
}

std::vector<Temporary> OrderTemporaries(const Rounds& s) {
  const std::int64_t vertices = s.r.columns.parts * s.r.columns.stride;
  return {SpreadRowsOf(DType::kU32, vertices, s.places, 0, 1, s.r.num_tiles),
          SpreadRowsOf(DType::kU32, vertices, s.tables(), 0, 1, s.r.num_tiles),
          SpreadRowsOf(DType::kU32, vertices, s.workers, 0, 1, s.r.num_tiles)};
}

std::pair<std::int64_t, std::int64_t> ShareOf(std::int64_t worker, std::int64_t workers,
                                              std::int64_t places) {
  const std::int64_t each = CeilDivide(CeilDivide(places, 8), workers) * 8;
  return {std::min(places, worker * each), std::min(places, (worker + 1) * each)};
}

std::int64_t PartOf(const hlo::GatherRounds& d, std::int64_t row) {
  return std::upper_bound(d.rowBegins.begin(), d.rowBegins.end(), static_cast<std::size_t>(row)) -
         d.rowBegins.begin() - 1;
}

std::int64_t RowAt(const Rounds& s, const HostTensor& indices, std::int64_t i) {
  const auto size = static_cast<std::int64_t>(SizeOf(indices.type));
  std::int64_t index = ReadIndex(indices.type, indices.as<char>() + i * size);
  if (index < 0) index += s.d.wrap;
  if (s.d.drops && (index < 0 || index > s.d.limit)) return -1;
  return std::clamp<std::int64_t>(index, 0, s.d.limit);
}

VertexGroup StartTrips(const SharedRounds& s, std::int64_t counters) {
  VertexGroup group = MakeVertexGroup("popops::GatherStart", VerticesWithRows(*s), 20, 8);
  group.writes.push_back(
      {{Kind::kTemporary, kTrip}, [counters](const Box& box) { return RowOf(box.begin[0], counters); }});
  group.compute = [](HostContext&, const Box&, const std::vector<HostTensor>&,
                     const std::vector<HostTensor>& writes) {
    std::fill_n(writes[0].as<std::uint32_t>(), writes[0].num_elements(), 0);
  };
  group.cycles = [](const TargetModel& target, const Box&) {
    return std::uint64_t{target.supervisor_overhead};
  };
  return group;
}

// Puts the indices of each worker into the order of the blocks that have their rows: a count, then a sum of
// the counts, then each to its place. An entry is the row's place in the block and the index' place on the
// tile.
VertexGroup OrderIndices(const SharedRounds& s, std::int64_t pass) {
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
      const std::int64_t row = RowAt(*s, reads[0], i);
      if (row < 0) return -1;
      const std::int64_t part = PartOf(d, row);
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

}  // namespace ipu_model
