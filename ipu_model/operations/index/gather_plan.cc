// The vertices of gathers, as PopLibs plans a multiSlice: every tile looks up all windows of its columns in
// the part of the operand that it holds. If an indexed dimension is cut, each cut gives a partial result, and
// a second superstep picks the one that contains the window. Windows are processed in as many such steps as
// the memory for partial results requires.
#include "operations/index/gather_plan.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "core/mapping/strides.h"
#include "core/target/target_model.h"
#include "kernels/copy/slice.h"
#include "kernels/copy/strided_copy.h"
#include "kernels/host/dense_tensor.h"
#include "kernels/host/integer_division.h"
#include "kernels/index/gather.h"
#include "operations/index/gather_division.h"
#include "operations/index/gather_rounds.h"
#include "operations/index/index_cost.h"
#include "operations/index/slice_grid.h"
#include "operations/vertex_groups.h"

namespace ipu_model {
namespace {

std::size_t Dim(int d) { return static_cast<std::size_t>(d); }

// One step of a gather: the data that its vertices share.
struct Step {
  GatherProblem problem;
  GatherDivision division;
  Shape begin, end;       // range of batch positions
  std::vector<Cut> cuts;  // cuts of the result's dimensions within a step

  std::size_t rank() const { return problem.operand.size(); }
  // Returns the start of the step along a dimension of the result.
  std::int64_t Offset(std::size_t out_dim) const {
    for (int b = 0; b < problem.window.batch_rank; ++b) {
      if (Dim(problem.window.batch_dim[b]) == out_dim) return begin[Dim(b)];
    }
    return 0;
  }
};

// Returns, for each dimension of the result, the cut of the iteration-space dimension that it comes from.
std::vector<Cut> CutsOfResult(const GatherProblem& p, const GatherDivision& division, const Shape& chunk) {
  std::vector<Cut> cuts(p.out.size());
  for (std::size_t j = 0; j < cuts.size(); ++j) cuts[j].extent = p.out[j];
  const std::vector<int> walked = WalkedDims(p);
  for (int b = 0; b < p.window.batch_rank; ++b) {
    const std::size_t from = walked[Dim(b)] >= 0 ? Dim(walked[Dim(b)]) : p.operand.size() + Dim(b);
    Cut& cut = cuts[Dim(p.window.batch_dim[b])];
    if (division.dims[from].num_parts() > 1) {
      cut = division.dims[from];
    } else {
      cut.extent = chunk[Dim(b)];
    }
  }
  for (std::size_t d = 0; d < p.operand.size(); ++d) {
    if (p.window.window_dim[d] >= 0 && !Indexed(p, d)) cuts[Dim(p.window.window_dim[d])] = division.dims[d];
  }
  return cuts;
}

Grid GridOfCuts(const std::vector<Cut>& cuts, const GatherDivision& division) {
  Grid grid;
  grid.first_tile = division.first_tile;
  grid.num_tiles = division.num_tiles;
  for (const Cut& cut : cuts) cut.AppendTo(&grid);
  return grid;
}

void Append(Box* box, std::int64_t begin, std::int64_t end) {
  box->begin.push_back(begin);
  box->end.push_back(end);
}

// AppendFine converts a region of the result, within one block of each cut, to the shape of the cuts, in
// which a dimension with blocks counts twice. ResultOfFine is the inverse.
void AppendFine(const Step& s, const Box& region, Box* fine) {
  for (std::size_t j = 0; j < s.cuts.size(); ++j) {
    const std::int64_t inner = s.cuts[j].inner(), begin = region.begin[j] - s.Offset(j);
    const std::int64_t block = s.cuts[j].outer > 1 ? begin / inner : 0;
    if (s.cuts[j].outer > 1) Append(fine, block, block + 1);
    Append(fine, begin - block * inner, region.end[j] - s.Offset(j) - block * inner);
  }
}
Box ResultOfFine(const Step& s, const Box& fine) {
  Box region;
  for (std::size_t j = 0, f = 0; j < s.cuts.size(); ++j, ++f) {
    std::int64_t base = s.Offset(j);
    if (s.cuts[j].outer > 1) base += fine.begin[f++] * s.cuts[j].inner();
    Append(&region, base + fine.begin[f], base + fine.end[f]);
  }
  return region;
}

// `box` is in the iteration space: the operand's dimensions, then the batch dimensions.
Box OperandRegion(const GatherProblem& p, const Box& box) {
  const auto rank = static_cast<std::ptrdiff_t>(p.operand.size());
  return {Shape(box.begin.begin(), box.begin.begin() + rank), Shape(box.end.begin(), box.end.begin() + rank)};
}

Box OutRegion(const GatherProblem& p, const Box& box) {
  Box region = Box::Whole(p.out);
  const std::size_t rank = p.operand.size();
  for (int b = 0; b < p.window.batch_rank; ++b) {
    const std::size_t dim = static_cast<std::size_t>(p.window.batch_dim[b]);
    region.begin[dim] = box.begin[rank + static_cast<std::size_t>(b)];
    region.end[dim] = box.end[rank + static_cast<std::size_t>(b)];
  }
  for (std::size_t d = 0; d < rank; ++d) {
    if (p.window.window_dim[d] < 0 || Indexed(p, d)) continue;
    region.begin[static_cast<std::size_t>(p.window.window_dim[d])] = box.begin[d];
    region.end[static_cast<std::size_t>(p.window.window_dim[d])] = box.end[d];
  }
  return region;
}

// Returns the index vectors of the batch positions in `out_region`.
Box IndicesRegion(const GatherProblem& p, const Box& out_region) {
  Box region = Box::Whole(p.indices);
  for (int b = 0; b < p.window.batch_rank; ++b) {
    const std::size_t dim = static_cast<std::size_t>(p.window.index_dim[b]);
    region.begin[dim] = out_region.begin[static_cast<std::size_t>(p.window.batch_dim[b])];
    region.end[dim] = out_region.end[static_cast<std::size_t>(p.window.batch_dim[b])];
  }
  return region;
}

// Adds the reads of the starts to a group. `out_region` maps the group's boxes to regions of the result.
template <typename OutRegionOf>
void AddIndexReads(const std::shared_ptr<const GatherProblem>& p, VertexGroup* group,
                   OutRegionOf out_region) {
  if (!p->scalar_starts) {
    group->reads.push_back({{OperandRef::Kind::kInput, 1},
                            [p, out_region](const Box& box) { return IndicesRegion(*p, out_region(box)); }});
    return;
  }
  for (unsigned i = 0; i < static_cast<unsigned>(p->indices[0]); ++i) {
    group->reads.push_back({{OperandRef::Kind::kInput, 1 + i}, [](const Box&) { return Box{}; }});
  }
}

// Returns the starts of a vertex as one tensor; scalars are copied to `storage`.
HostTensor LocalIndices(const GatherProblem& p, const std::vector<HostTensor>& reads, std::size_t first,
                        std::int64_t* storage) {
  if (!p.scalar_starts) return reads[first];
  for (std::int64_t i = 0; i < p.indices[0]; ++i) {
    const HostTensor& start = reads[first + static_cast<std::size_t>(i)];
    storage[i] = ReadIndex(start.type, start.data);
  }
  return DenseVector(DType::kS64, p.indices[0], storage);
}

WindowPlacement LocalPlacement(const GatherProblem& p, const Box& box) {
  WindowPlacement placement = WholePlacement(p.operand, p.slice_sizes);
  const std::size_t rank = p.operand.size();
  for (int b = 0; b < p.window.batch_rank; ++b) placement.batch_begin[b] = box.begin[rank + Dim(b)];
  for (std::size_t d = 0; d < rank; ++d) {
    placement.operand_begin[d] = box.begin[d];
    placement.window_begin[d] = p.window.batching[d] < 0 && !Indexed(p, d) ? box.begin[d] : 0;
  }
  return placement;
}

// Returns the vertices of a step's first superstep: the parts of the space that have windows of this step.
std::vector<Vertex> SliceVertices(const Step& s) {
  const std::vector<int> walked = WalkedDims(s.problem);
  const std::size_t rank = s.rank(), n = s.division.dims.size();
  std::vector<Vertex> vertices;
  Shape part(n, 0);
  while (true) {
    Vertex vertex{0, {Shape(n), Shape(n)}};
    std::int64_t tile = s.division.first_tile;
    bool empty = false;
    for (std::size_t d = 0; d < n; ++d) {
      const Cut& cut = s.division.dims[d];
      tile += cut.TileOffset(part[d]);
      const bool walks = d >= rank && walked[d - rank] >= 0;
      const std::int64_t first = d >= rank ? s.begin[d - rank] : 0;
      std::int64_t begin = walks ? vertex.box.begin[Dim(walked[d - rank])] : first + cut.Begin(part[d]);
      std::int64_t end = walks ? vertex.box.end[Dim(walked[d - rank])] : first + cut.Begin(part[d] + 1);
      if (d >= rank) {
        begin = std::max(begin, s.begin[d - rank]);
        end = std::min(end, s.end[d - rank]);
        if (walks) {
          vertex.box.begin[Dim(walked[d - rank])] = begin;
          vertex.box.end[Dim(walked[d - rank])] = end;
        }
      }
      vertex.box.begin[d] = begin;
      vertex.box.end[d] = end;
      empty = empty || begin >= end;
    }
    vertex.tile = static_cast<unsigned>(tile % s.division.num_tiles);
    if (!empty) vertices.push_back(std::move(vertex));
    std::size_t d = n;
    while (d > 0 && ++part[d - 1] == s.division.dims[d - 1].num_parts()) part[--d] = 0;
    if (d == 0) return vertices;
  }
}

// Returns the temporary for partial results: the parts of each split dimension, then the result of a step.
Temporary PartialResults(const Step& s) {
  Temporary partial;
  partial.type = s.problem.type;
  std::vector<Cut> cuts;
  for (const int d : s.division.split) {
    const Cut& cut = s.division.dims[Dim(d)];
    cuts.push_back({cut.num_parts(), cut.outer, cut.outer_stride, cut.parts, cut.stride, 1});
  }
  cuts.insert(cuts.end(), s.cuts.begin(), s.cuts.end());
  partial.placement = GridOfCuts(cuts, s.division);
  return partial;
}

// Returns the partial results of the fine region of the result: those of all vertices, or of one vertex.
Box PartialRegion(const Step& s, const Box* vertex, const Box& fine) {
  Box region;
  for (const int d : s.division.split) {
    const Cut& cut = s.division.dims[Dim(d)];
    const std::int64_t part = vertex == nullptr ? 0 : cut.PartOf(vertex->begin[Dim(d)]);
    if (cut.outer > 1) {
      const std::int64_t block = part / cut.parts;
      Append(&region, block, vertex == nullptr ? cut.outer : block + 1);
    }
    Append(&region, part % cut.parts, vertex == nullptr ? cut.parts : part % cut.parts + 1);
  }
  region.begin.insert(region.begin.end(), fine.begin.begin(), fine.begin.end());
  region.end.insert(region.end.end(), fine.end.begin(), fine.end.end());
  return region;
}

// Returns the grid of a step's result, in the shape of its cuts, over all tiles. No part is in two
// blocks.
Grid PickGrid(const Step& s, unsigned num_tiles) {
  Grid grid = GridOfCuts(s.cuts, s.division);
  const std::size_t rank = grid.shape.size();
  std::vector<bool> block(rank, false);
  std::int64_t tiles = num_tiles;
  for (std::size_t j = 0, f = 0; j < s.cuts.size(); ++j, ++f) {
    if (s.cuts[j].outer <= 1) continue;
    block[f++] = true;
    tiles = std::max<std::int64_t>(1, tiles / s.cuts[j].outer);
  }
  const auto size = static_cast<std::int64_t>(SizeOf(s.problem.type));
  for (std::size_t f = 0; f < rank; ++f) {
    grid.grain[f] = f + 1 == rank && !block[f] ? std::max<std::int64_t>(1, 8 / size) : 1;
    if (block[f]) continue;
    grid.parts[f] = std::clamp<std::int64_t>(CeilDivide(grid.shape[f], grid.grain[f]), 1, tiles);
    tiles /= grid.parts[f];
  }
  grid.first_tile = 0;
  grid.num_tiles = num_tiles;
  grid.tile_stride = RowMajorStrides(grid.parts);
  return grid;
}

// The second superstep: `box` is a region of the result; the reads are the partial results and the starts.
class PartPicker {
 public:
  PartPicker(const Step& s, const Box& box, const std::vector<HostTensor>& reads, const HostTensor& out)
      : s_(s), partial_(reads[0]), out_(out) {
    const GatherProblem& p = s.problem;
    int next = 0;
    for (const int d : s.division.split) {
      next += s.division.dims[Dim(d)].outer > 1 ? 2 : 1;
      part_stride_.push_back(partial_.strides[next - 1]);
    }
    std::int64_t storage[kMaxRank];
    const HostTensor indices = LocalIndices(p, reads, 1, storage);
    WindowPlacement placement = WholePlacement(p.operand, p.slice_sizes);
    HostTensor operand;
    operand.type = p.type;
    operand.rank = static_cast<int>(p.operand.size());
    for (int d = 0; d < operand.rank; ++d) {
      operand.shape[d] = p.operand[Dim(d)];
      if (p.window.window_dim[d] >= 0) placement.window_begin[d] = box.begin[Dim(p.window.window_dim[d])];
    }
    for (int b = 0; b < p.window.batch_rank; ++b)
      placement.batch_begin[b] = box.begin[Dim(p.window.batch_dim[b])];
    const WindowRows rows(p.window, placement, operand, indices, out);
    std::copy(out.shape, out.shape + out.rank, shape_);
    for (int b = 0; b < p.window.batch_rank; ++b) shape_[p.window.batch_dim[b]] = 1;
    for (const int d : s.division.split) {
      if (p.window.window_dim[d] >= 0) shape_[p.window.window_dim[d]] = 1;
    }
    for (std::int64_t row = 0; row < rows.num_rows(); ++row) {
      std::int64_t window_begin[kMaxRank], extent[kMaxRank], to;
      if (rows.Clip(row, true, begin_, window_begin, extent, &to)) Pick(0, to, to);
    }
  }

 private:
  // Picks from the split dimensions from number `k` on. A window may lie in several parts of a dimension.
  void Pick(std::size_t k, std::int64_t from, std::int64_t to) {
    const auto size = static_cast<std::int64_t>(SizeOf(s_.problem.type));
    if (k == s_.division.split.size()) {
      // After its leading part dimensions, the partial result has the result's strides.
      CopyStrided(nullptr, out_.rank, shape_, partial_.as<char>() + from * size, out_.strides,
                  out_.as<char>() + to * size, out_.strides, static_cast<std::size_t>(size));
      return;
    }
    const int d = s_.division.split[k], window_dim = s_.problem.window.window_dim[d];
    const std::int64_t length = window_dim < 0 ? 1 : out_.shape[window_dim];
    for (std::int64_t w = 0; w < length; ++w) {
      const std::int64_t part = s_.division.dims[Dim(d)].PartOf(begin_[d] + w);
      const std::int64_t along = window_dim < 0 ? 0 : w * out_.strides[window_dim];
      Pick(k + 1, from + part * part_stride_[k] + along, to + along);
    }
  }

  const Step& s_;
  const HostTensor &partial_, &out_;
  std::vector<std::int64_t> part_stride_;
  std::int64_t shape_[kMaxRank], begin_[kMaxRank];
};

// Returns the cycles of a vertex that looks up or picks the part `out` of the result.
std::uint64_t CyclesOfRows(const GatherProblem& p, const TargetModel& target, const Box& out) {
  std::int64_t rows = 1;
  for (int b = 0; b < p.window.batch_rank; ++b) {
    const std::size_t d = Dim(p.window.batch_dim[b]);
    rows *= out.end[d] - out.begin[d];
  }
  return SliceCycles(target, p.type, rows, rows > 0 ? out.num_elements() / rows : 0, p.window.num_wraps);
}

VertexGroup SliceGroup(const std::shared_ptr<const Step>& s, const std::shared_ptr<const GatherProblem>& p) {
  const bool split = !s->division.split.empty();
  VertexGroup group = MakeVertexGroup(p->codelet, SliceVertices(*s), 400, 32);
  group.reads.push_back(
      {{OperandRef::Kind::kInput, 0}, [p](const Box& box) { return OperandRegion(*p, box); }});
  AddIndexReads(p, &group, [p](const Box& box) { return OutRegion(*p, box); });
  group.cycles = [p](const TargetModel& target, const Box& box) {
    return CyclesOfRows(*p, target, OutRegion(*p, box));
  };
  if (split) {
    group.writes.push_back({{OperandRef::Kind::kTemporary, 0}, [s](const Box& box) {
                              Box fine;
                              AppendFine(*s, OutRegion(s->problem, box), &fine);
                              return PartialRegion(*s, &box, fine);
                            }});
  } else {
    group.writes.push_back(
        {{OperandRef::Kind::kOutput, 0}, [p](const Box& box) { return OutRegion(*p, box); }});
  }
  group.compute = [p, split](HostContext& context, const Box& box, const std::vector<HostTensor>& reads,
                             const std::vector<HostTensor>& writes) {
    std::int64_t storage[kMaxRank];
    HostTensor out = writes[0];
    WindowPlacement placement = LocalPlacement(*p, box);
    if (split) {
      placement.clipped = true;
      std::memset(out.data, 0, static_cast<std::size_t>(out.num_elements()) * SizeOf(out.type));
      // Drop the part dimensions of extent 1: the rest is dense and has the result's shape.
      const Shape extents = OutRegion(*p, box).extents();
      out.rank = static_cast<int>(extents.size());
      std::copy(extents.begin(), extents.end(), out.shape);
      SetDenseStrides(&out);
    }
    Gather(context, p->window, placement, reads[0], LocalIndices(*p, reads, 1, storage), out);
  };
  return group;
}

VertexGroup PickGroup(const std::shared_ptr<const Step>& s, const std::shared_ptr<const GatherProblem>& p,
                      unsigned num_tiles) {
  const auto region = [s](const Box& fine) { return ResultOfFine(*s, fine); };
  VertexGroup group = MakeVertexGroup(p->codelet + "PickPart", PickGrid(*s, num_tiles).Vertices(), 200, 24);
  // The last step may have fewer windows.
  for (Vertex& vertex : group.vertices) {
    for (std::size_t j = 0, f = 0; j < s->cuts.size(); ++j, ++f) {
      if (s->cuts[j].outer > 1) ++f;
      std::int64_t most = p->out[j];
      for (int b = 0; b < p->window.batch_rank; ++b) {
        if (Dim(p->window.batch_dim[b]) == j) most = s->end[Dim(b)] - s->begin[Dim(b)];
      }
      if (s->cuts[j].outer <= 1) vertex.box.end[f] = std::min(vertex.box.end[f], most);
    }
  }
  group.vertices.erase(std::remove_if(group.vertices.begin(), group.vertices.end(),
                                      [](const Vertex& v) { return v.box.num_elements() == 0; }),
                       group.vertices.end());
  group.reads.push_back(
      {{OperandRef::Kind::kTemporary, 0}, [s](const Box& fine) { return PartialRegion(*s, nullptr, fine); }});
  AddIndexReads(p, &group, region);
  group.writes.push_back({{OperandRef::Kind::kOutput, 0}, region});
  group.compute = [s, region](HostContext&, const Box& box, const std::vector<HostTensor>& reads,
                              const std::vector<HostTensor>& writes) {
    PartPicker(*s, region(box), reads, writes[0]);
  };
  group.cycles = [p, region](const TargetModel& target, const Box& box) {
    return CyclesOfRows(*p, target, region(box));
  };
  return group;
}

}  // namespace

WindowPlacement WholePlacement(const Shape& operand, const Shape& slice_sizes) {
  WindowPlacement placement;
  std::copy(operand.begin(), operand.end(), placement.operand_dims);
  std::copy(slice_sizes.begin(), slice_sizes.end(), placement.slice_sizes);
  return placement;
}

Grid GatherOutputGrid(const GatherProblem& problem, const TargetModel& target, unsigned num_tiles) {
  const GatherDivision division = ChooseGatherDivision(problem, target, num_tiles);
  if (const auto rounds = RoundsInsteadOf(division, problem, target, num_tiles))
    return ResultOfRounds(problem, *rounds);
  if (!division.split.empty()) return SpreadGrid(problem.out, problem.type, num_tiles);
  return GridOfCuts(CutsOfResult(problem, division, division.chunk), division);
}

hlo::GatherPlan DescribeGather(const GatherProblem& problem, const TargetModel& target, unsigned num_tiles) {
  const GatherDivision division = ChooseGatherDivision(problem, target, num_tiles);
  hlo::GatherPlan described;
  if (const auto rounds = RoundsInsteadOf(division, problem, target, num_tiles)) {
    described.rounds = DescribeRounds(problem, *rounds);
    return described;
  }
  for (const int d : division.split) {
    hlo::GatherSplit& split = described.splits.emplace_back(hlo::GatherSplit{static_cast<unsigned>(d), {}});
    const Cut& cut = division.dims[Dim(d)];
    for (std::int64_t part = 0; part < cut.num_parts(); ++part)
      split.begins.push_back(static_cast<std::size_t>(cut.Begin(part)));
  }
  return described;
}

TilePlan PlanGather(const GatherProblem& problem, const TargetModel& target, unsigned num_tiles) {
  TilePlan plan;
  if (NumElements(problem.out) == 0) return plan;
  const auto p = std::make_shared<const GatherProblem>(problem);
  Step step{problem, ChooseGatherDivision(problem, target, num_tiles), {}, {}, {}};
  if (const auto rounds = RoundsInsteadOf(step.division, problem, target, num_tiles))
    return PlanGatherRounds(problem, *rounds, target);
  const Shape& chunk = step.division.chunk;
  step.cuts = CutsOfResult(problem, step.division, chunk);
  if (!step.division.split.empty()) plan.temporaries.push_back(PartialResults(step));
  const std::size_t batches = chunk.size();
  step.begin.assign(batches, 0);
  while (true) {
    step.end = step.begin;
    for (std::size_t b = 0; b < batches; ++b)
      step.end[b] = std::min(step.begin[b] + chunk[b], p->out[Dim(p->window.batch_dim[b])]);
    const auto s = std::make_shared<const Step>(step);
    plan.supersteps.push_back({{SliceGroup(s, p)}});
    if (!s->division.split.empty()) plan.supersteps.push_back({{PickGroup(s, p, num_tiles)}});
    std::size_t b = batches;
    for (; b > 0; --b) {
      step.begin[b - 1] += chunk[b - 1];
      if (step.begin[b - 1] < p->out[Dim(p->window.batch_dim[b - 1])]) break;
      step.begin[b - 1] = 0;
    }
    if (b == 0) return plan;
  }
}

}  // namespace ipu_model
