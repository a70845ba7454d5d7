// Cumulative operations: scans of chunks, a scan of the chunks' totals, and the combination of both.
#include "operations/window/cumulative_plan.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/target/target_model.h"
#include "kernels/copy/strided_copy.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/fill.h"
#include "kernels/window/window.h"
#include "operations/vertex_groups.h"
#include "operations/window/window_cost.h"

namespace ipu_model {
namespace {

constexpr std::uint64_t kVertexBytes = 32;  // pointers, lengths and strides (model estimate)
// A superstep more: its sync, and the exchange of few elements.
constexpr std::int64_t kCyclesOfSuperstep = 250;

HostTensor Range(const HostTensor& tensor, int dimension, std::int64_t begin, std::int64_t count) {
  std::int64_t from[kMaxRank] = {}, extents[kMaxRank];
  std::copy(tensor.shape, tensor.shape + tensor.rank, extents);
  from[dimension] = begin;
  extents[dimension] = count;
  return SubTensor(tensor, from, extents);
}

// The data that the vertices share.
struct Cumulative {
  Grid split;
  int dimension;
  bool backwards;
  ReduceWindowKernel scan;
  ElementwiseKernel combine;
  ElementwiseCost cost;

  Cumulative(const Expression& combiner, const Grid& grid, int along, bool from_end)
      : split(grid),
        dimension(along),
        backwards(from_end),
        scan(combiner),
        combine(combiner),
        cost(combiner) {}

  // Returns the chunk's position among the chunks of its lines.
  Box PartRegion(const Box& box) const {
    const auto d = static_cast<std::size_t>(dimension);
    Box region = box;
    region.begin[d] = split.PartOf(dimension, box.begin[d]);
    region.end[d] = region.begin[d] + 1;
    return region;
  }

  // Writes the running results of `in`; all lines start from one scalar.
  void Scan(HostContext& host, const HostTensor& in, const HostTensor& init, const HostTensor& out) const {
    const std::int64_t steps = in.shape[dimension];
    if (steps == 0) return;
    WindowGeometry geometry;
    geometry.rank = in.rank;
    // Use the window of the whole line, because it decides whether halves are rounded at each step.
    const std::int64_t size = split.shape[static_cast<std::size_t>(dimension)];
    geometry.dim[dimension].size = size;
    geometry.dim[dimension].padding_low = backwards ? 0 : size - 1;
    scan.Run(host, geometry, {in, init}, {out});
  }

  // Each line starts from its own first element, so that no type needs an identity.
  void ScanChunk(HostContext& host, const HostTensor& in, const HostTensor& out) const {
    const std::int64_t steps = in.shape[dimension], rest = steps - 1;
    const std::int64_t first = backwards ? rest : 0, others = backwards ? 0 : 1;
    CopyTensor(host, Range(in, dimension, first, 1), Range(out, dimension, first, 1));
    if (rest == 0) return;
    std::int64_t at[kMaxRank] = {}, one[kMaxRank];
    std::fill(one, one + in.rank, 1);
    std::int64_t line[kMaxRank];
    std::fill(line, line + in.rank, 1);
    line[dimension] = rest;
    const Scratch::Mark mark = host.scratch.Save();
    for (int d = 0; d >= 0;) {
      at[dimension] = first;
      HostTensor init = SubTensor(out, at, one);
      init.rank = 0;
      at[dimension] = others;
      Scan(host, SubTensor(in, at, line), init, SubTensor(out, at, line));
      host.scratch.Rewind(mark);
      for (d = in.rank - 1; d >= 0; --d) {
        if (d == dimension) continue;
        if (++at[d] < in.shape[d]) break;
        at[d] = 0;
      }
    }
  }

  // Writes the value before each chunk: the init, then the running results of the totals, shifted by one
  // position.
  void ScanTotals(HostContext& host, const HostTensor& totals, const HostTensor& init,
                  const HostTensor& before) const {
    const std::int64_t parts = totals.shape[dimension], rest = parts - 1;
    Fill(host, init.data, Range(before, dimension, backwards ? rest : 0, 1));
    Scan(host, Range(totals, dimension, backwards ? 1 : 0, rest), init,
         Range(before, dimension, backwards ? 0 : 1, rest));
  }

  void Combine(HostContext& host, const HostTensor& before, const HostTensor& chunk,
               const HostTensor& out) const {
    HostTensor repeated = before;
    repeated.shape[dimension] = chunk.shape[dimension];
    repeated.strides[dimension] = 0;
    // Windows run upwards, so in a scan from the end the chunk is the first operand.
    const HostTensor in[] = {backwards ? chunk : repeated, backwards ? repeated : chunk};
    combine.Run(host, in, &out);
  }
};

Box Scalar(const Box&) { return Box{}; }
}  // namespace

bool MayBeCut(const Expression& combiner) {
  return combiner.inputs.size() == 2 && combiner.outputs.size() == 1 &&
         combiner.inputs[0] == combiner.inputs[1];
}

std::int64_t CumulativeHalo(const TargetModel& target, const Expression& combiner, std::int64_t length,
                            std::int64_t lines, std::int64_t reach) {
  // The cost is two passes over a chunk and one over the chunks' totals, which is least with sqrt(2 * length)
  // chunks. A dimension is cut into parts of at least two halos.
  const auto chunks = static_cast<std::int64_t>(std::sqrt(2.0 * static_cast<double>(length)));
  const std::int64_t chunk = length / std::max<std::int64_t>(1, chunks);
  if (chunk < 2) return reach;
  const ElementwiseCost cost(combiner);
  // Few lines come to few tiles, each of which receives its lines whole.
  const auto bytes = static_cast<std::uint64_t>(length * lines) * SizeOf(combiner.inputs[0]);
  const std::uint64_t whole = WindowCycles(target, cost, length * lines, length * lines) +
                              bytes / target.exchange_bytes_per_cycle,
                      cut = ScanCycles(target, cost, chunk * lines) + cost.Cycles(target, chunk * lines) +
                            ScanCycles(target, cost, chunks * lines) + 2 * kCyclesOfSuperstep;
  return whole > cut ? std::max<std::int64_t>(1, chunk / 2) : reach;
}

TilePlan CumulativePlan(const TargetModel& target, const Expression& combiner, const Grid& split,
                        int dimension, bool backwards) {
  const auto shared = std::make_shared<const Cumulative>(combiner, split, dimension, backwards);
  const auto d = static_cast<std::size_t>(dimension);
  const DType type = combiner.inputs[0];
  const std::string suffix = std::string("<") + NameOf(type) + ">";
  const OperandRef operand{OperandRef::Kind::kInput, 0}, init{OperandRef::Kind::kInput, 1},
      result{OperandRef::Kind::kOutput, 0}, totals{OperandRef::Kind::kTemporary, 0},
      before{OperandRef::Kind::kTemporary, 1};
  const auto part_region = [shared](const Box& box) { return shared->PartRegion(box); };
  const auto group_of = [&](const char* codelet, std::vector<Vertex> vertices) {
    VertexGroup group;
    group.codelet = codelet + suffix;
    group.vertices = std::move(vertices);
    group.code_bytes = shared->cost.CodeBytes(target);
    group.vertex_bytes = kVertexBytes;
    return group;
  };

  // Totals stay on the tiles of their chunks. The values before the chunks are computed where the line's
  // first chunk is.
  Grid chunks = split;
  chunks.shape[d] = split.parts[d];
  chunks.grain[d] = 1;
  Grid lines = chunks;
  lines.parts[d] = 1;
  TilePlan plan;
  plan.temporaries = {{type, chunks}, {type, lines}};

  VertexGroup scan = group_of("hlo::ScanChunk", split.Vertices());
  scan.reads.push_back({operand, Same, true});
  scan.writes.push_back({result, Same, true});
  scan.writes.push_back({totals, part_region});
  scan.compute = [shared](HostContext& host, const Box&, const std::vector<HostTensor>& reads,
                          const std::vector<HostTensor>& writes) {
    shared->ScanChunk(host, reads[0], writes[0]);
    const std::int64_t last = shared->backwards ? 0 : writes[0].shape[shared->dimension] - 1;
    CopyTensor(host, Range(writes[0], shared->dimension, last, 1), writes[1]);
  };
  const auto scan_cycles = [shared](const TargetModel& model, const Box& box) {
    return ScanCycles(model, shared->cost, box.num_elements());
  };
  scan.cycles = scan_cycles;

  VertexGroup middle = group_of("hlo::ScanTotals", lines.Vertices());
  middle.reads.push_back({totals, Same, true});
  middle.reads.push_back({init, Scalar});
  middle.writes.push_back({before, Same, true});
  middle.compute = [shared](HostContext& host, const Box&, const std::vector<HostTensor>& reads,
                            const std::vector<HostTensor>& writes) {
    shared->ScanTotals(host, reads[0], reads[1], writes[0]);
  };
  middle.cycles = scan_cycles;

  VertexGroup combine = group_of("hlo::ScanCombine", split.Vertices());
  combine.reads.push_back({before, part_region});
  combine.reads.push_back({result, Same, true});
  combine.writes.push_back({result, Same, true});
  combine.compute = [shared](HostContext& host, const Box&, const std::vector<HostTensor>& reads,
                             const std::vector<HostTensor>& writes) {
    shared->Combine(host, reads[0], reads[1], writes[0]);
  };
  combine.cycles = [shared](const TargetModel& model, const Box& box) {
    return shared->cost.Cycles(model, box.num_elements());
  };

  plan.supersteps.push_back({{std::move(scan)}});
  plan.supersteps.push_back({{std::move(middle)}});
  plan.supersteps.push_back({{std::move(combine)}});
  return plan;
}

}  // namespace ipu_model
