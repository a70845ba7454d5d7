// Vertices of gathers. Layout as in PopLibs's embedding plan: window dimensions spread, indexed dimensions
// whole; when one tile cannot hold an indexed dimension it is cut, every part produces what it holds, and a
// second superstep picks for each window the part it lies in.
#include "pjrt_plugin/ipu_model/operations/gather_plan.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>

#include "pjrt_plugin/ipu_model/core/target_model.h"
#include "pjrt_plugin/ipu_model/kernels/gather.h"
#include "pjrt_plugin/ipu_model/kernels/integer_division.h"
#include "pjrt_plugin/ipu_model/kernels/slice.h"
#include "pjrt_plugin/ipu_model/operations/slice_partition.h"

namespace ipu_model {
namespace {

// The iteration space of the first superstep: operand dimensions (a window dimension over the window, an
// indexed dimension over the operand), then batch dimensions.
struct Layout {
  Partition space;
  int split = -1;  // operand dimension that is cut, or -1
  std::int64_t split_parts() const { return split < 0 ? 1 : space.parts[static_cast<std::size_t>(split)]; }
};

bool Indexed(const GatherProblem& p, std::size_t d) {
  return p.window.component[d] >= 0 && p.slice_sizes[d] < p.operand[d];
}

Shape SpaceShape(const GatherProblem& p) {
  Shape shape;
  for (std::size_t d = 0; d < p.operand.size(); ++d) {
    const bool batching = p.window.batching[d] >= 0;
    shape.push_back(batching ? 1 : Indexed(p, d) ? p.operand[d] : p.slice_sizes[d]);
  }
  for (int b = 0; b < p.window.batch_rank; ++b) shape.push_back(p.out[p.window.batch_dim[b]]);
  return shape;
}

// facts: multiSlice worker = 30 + sum(19 + 2 x vectors) per window; six workers share the windows. Counted
// from the instructions: 3 to wrap an index.
std::uint64_t SliceCycles(const TargetModel& target, DType type, std::int64_t rows, std::int64_t elements,
                          int wraps) {
  const std::int64_t vectors = CeilDivide(elements, target.VectorWidth(type));
  const std::int64_t per_worker = CeilDivide(rows, target.worker_contexts);
  const std::int64_t worker = 30 + per_worker * (19 + 3 * wraps + 2 * vectors);
  return static_cast<std::uint64_t>(worker) * target.worker_contexts + target.supervisor_overhead;
}

Layout MakeLayout(const GatherProblem& p, const TargetModel& target, unsigned num_tiles,
                  std::int64_t batch_parts) {
  const std::size_t rank = p.operand.size();
  const Shape shape = SpaceShape(p);
  const Shape operand_space(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(rank));
  std::vector<bool> indexed(rank);
  for (std::size_t d = 0; d < rank; ++d) indexed[d] = Indexed(p, d);
  const unsigned tiles = static_cast<unsigned>(std::max<std::int64_t>(1, num_tiles / batch_parts));
  const Partition operand =
      SlicePartition(operand_space, indexed, p.type, tiles, SliceBudget(target.bytes_per_tile));
  Layout layout;
  layout.space = operand;
  layout.space.shape = shape;
  layout.space.num_tiles = num_tiles;
  for (std::size_t d = 0; d < rank; ++d) {
    if (indexed[d] && operand.parts[d] > 1) layout.split = static_cast<int>(d);
  }
  std::int64_t left = batch_parts;
  for (std::size_t d = rank; d < shape.size(); ++d) {
    const std::int64_t parts = std::clamp<std::int64_t>(shape[d], 1, left);
    layout.space.parts.push_back(parts);
    layout.space.grain.push_back(1);
    left /= parts;
  }
  layout.space.tile_stride = TileStrides(layout.space.parts);
  return layout;
}

std::int64_t LargestBox(const Partition& partition, std::size_t begin, std::size_t end) {
  std::int64_t n = 1;
  for (std::size_t d = begin; d < end; ++d) n *= partition.LargestPart(static_cast<int>(d));
  return n;
}

// Few tiles per index row with the operand where it lives, or many with the operand replicated: the cheaper.
Layout ChooseLayout(const GatherProblem& p, const TargetModel& target, unsigned num_tiles) {
  const std::size_t rank = p.operand.size();
  std::int64_t rows = 1;
  for (int b = 0; b < p.window.batch_rank; ++b) rows *= p.out[p.window.batch_dim[b]];
  Layout best;
  double best_cycles = std::numeric_limits<double>::max();
  for (std::int64_t parts = 1;; parts = std::min<std::int64_t>(2 * parts, num_tiles)) {
    const Layout layout = MakeLayout(p, target, num_tiles, parts);
    const std::int64_t tile_rows = LargestBox(layout.space, rank, layout.space.shape.size());
    std::int64_t window = 1;
    for (std::size_t d = 0; d < rank; ++d) {
      window *= Indexed(p, d) ? p.slice_sizes[d] : layout.space.LargestPart(static_cast<int>(d));
    }
    const std::int64_t operand_bytes =
        LargestBox(layout.space, 0, rank) * static_cast<std::int64_t>(SizeOf(p.type));
    double bytes =
        static_cast<double>(tile_rows * p.window.num_components) * static_cast<double>(SizeOf(p.index_type));
    if (parts > 1) bytes += static_cast<double>(operand_bytes);
    if (layout.split >= 0) bytes += static_cast<double>(tile_rows * window * layout.split_parts());
    // What wraps cost is not weighed: it is small, and not what the layouts differ in.
    const double cycles = static_cast<double>(SliceCycles(target, p.type, tile_rows, window, 0)) +
                          bytes / target.exchange_bytes_per_cycle;
    if (cycles < best_cycles) {
      best_cycles = cycles;
      best = layout;
    }
    if (parts >= std::min<std::int64_t>(num_tiles, std::max<std::int64_t>(rows, 1))) break;
  }
  return best;
}

Box OperandRegion(const GatherProblem& p, const Box& box) {
  Box region;
  for (std::size_t d = 0; d < p.operand.size(); ++d) {
    const int batching = p.window.batching[d];
    const std::size_t from = batching < 0 ? d : p.operand.size() + static_cast<std::size_t>(batching);
    region.begin.push_back(box.begin[from]);
    region.end.push_back(box.end[from]);
  }
  return region;
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

// The index vectors of the batch positions in `out_region`.
Box IndicesRegion(const GatherProblem& p, const Box& out_region) {
  Box region = Box::Whole(p.indices);
  for (int b = 0; b < p.window.batch_rank; ++b) {
    const std::size_t dim = static_cast<std::size_t>(p.window.index_dim[b]);
    region.begin[dim] = out_region.begin[static_cast<std::size_t>(p.window.batch_dim[b])];
    region.end[dim] = out_region.end[static_cast<std::size_t>(p.window.batch_dim[b])];
  }
  return region;
}

// Adds the reads of the starts to a group; `out_region` maps the group's boxes to those of the result.
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

// The starts of a vertex as one tensor; scalars are put into `storage`.
HostTensor LocalIndices(const GatherProblem& p, const std::vector<HostTensor>& reads, std::size_t first,
                        std::int64_t* storage) {
  if (!p.scalar_starts) return reads[first];
  for (std::int64_t i = 0; i < p.indices[0]; ++i) {
    const HostTensor& start = reads[first + static_cast<std::size_t>(i)];
    storage[i] = ReadIndex(start.type, start.data);
  }
  HostTensor t;
  t.data = storage;
  t.type = DType::kS64;
  t.rank = 1;
  t.shape[0] = p.indices[0];
  t.strides[0] = 1;
  return t;
}

WindowPlacement LocalPlacement(const GatherProblem& p, const Box& box) {
  WindowPlacement placement = WholePlacement(p.operand, p.slice_sizes);
  const std::size_t rank = p.operand.size();
  for (int b = 0; b < p.window.batch_rank; ++b) {
    placement.batch_begin[b] = box.begin[rank + static_cast<std::size_t>(b)];
  }
  for (std::size_t d = 0; d < rank; ++d) {
    const int batching = p.window.batching[d];
    placement.operand_begin[d] = batching < 0 ? box.begin[d] : placement.batch_begin[batching];
    placement.window_begin[d] = batching < 0 && !Indexed(p, d) ? box.begin[d] : 0;
  }
  return placement;
}

// Second superstep: `box` is a region of the result, reads are the partial results and the starts.
void PickParts(const GatherProblem& p, const Layout& layout, const Box& box,
               const std::vector<HostTensor>& reads, const HostTensor& out) {
  std::int64_t storage[kMaxRank];
  const HostTensor indices = LocalIndices(p, reads, 1, storage);
  const HostTensor& partial = reads[0];
  // Only the start along the cut dimension matters; the rows come from Clip on an operand of that extent.
  const int split = layout.split, window_dim = p.window.window_dim[split];
  const std::size_t size = SizeOf(p.type);
  std::int64_t shape[kMaxRank];
  WindowPlacement placement = WholePlacement(p.operand, p.slice_sizes);
  HostTensor operand;
  operand.type = p.type;
  operand.rank = static_cast<int>(p.operand.size());
  for (int d = 0; d < operand.rank; ++d) {
    operand.shape[d] = p.operand[static_cast<std::size_t>(d)];
    if (p.window.window_dim[d] >= 0) {
      placement.window_begin[d] = box.begin[static_cast<std::size_t>(p.window.window_dim[d])];
    }
  }
  for (int b = 0; b < p.window.batch_rank; ++b) {
    placement.batch_begin[b] = box.begin[static_cast<std::size_t>(p.window.batch_dim[b])];
  }
  const WindowRows rows(p.window, placement, operand, indices, out);
  for (int d = 0; d < out.rank; ++d) shape[d] = out.shape[d];
  for (int b = 0; b < p.window.batch_rank; ++b) shape[p.window.batch_dim[b]] = 1;
  const std::int64_t length = window_dim < 0 ? 1 : out.shape[window_dim];
  if (window_dim >= 0) shape[window_dim] = 1;
  for (std::int64_t row = 0; row < rows.num_rows(); ++row) {
    std::int64_t begin[kMaxRank], window_begin[kMaxRank], extent[kMaxRank], to;
    rows.Clip(row, true, begin, window_begin, extent, &to);
    for (std::int64_t w = 0; w < length; ++w) {
      const std::int64_t part = layout.space.PartOf(split, begin[split] + w);
      const std::int64_t offset = to + (window_dim < 0 ? 0 : w * out.strides[window_dim]);
      // The partial result has the result's strides behind its leading part dimension.
      CopyStrided(nullptr, out.rank, shape,
                  partial.as<char>() + (part * partial.strides[0] + offset) * static_cast<std::int64_t>(size),
                  partial.strides + 1, out.as<char>() + offset * static_cast<std::int64_t>(size), out.strides,
                  size);
    }
  }
}

// The result as the first superstep produces it: each dimension has the parts of the space dimension it comes
// from.
Partition ProducedPartition(const GatherProblem& p, const Layout& layout) {
  Partition partition;
  partition.shape = p.out;
  partition.num_tiles = layout.space.num_tiles;
  partition.parts.assign(p.out.size(), 1);
  partition.grain.assign(p.out.size(), 1);
  partition.tile_stride.assign(p.out.size(), 1);
  const auto take = [&](int dim, std::size_t from) {
    const std::size_t d = static_cast<std::size_t>(dim);
    partition.parts[d] = layout.space.parts[from];
    partition.grain[d] = layout.space.grain[from];
    partition.tile_stride[d] = layout.space.tile_stride[from];
  };
  const std::size_t rank = p.operand.size();
  for (int b = 0; b < p.window.batch_rank; ++b) {
    take(p.window.batch_dim[b], rank + static_cast<std::size_t>(b));
  }
  for (std::size_t d = 0; d < rank; ++d) {
    if (p.window.window_dim[d] >= 0 && !Indexed(p, d)) take(p.window.window_dim[d], d);
  }
  return partition;
}

// One vertex for each part of the cut dimension and of the result: a leading dimension for the former.
Temporary PartialResults(const GatherProblem& p, const Layout& layout) {
  Temporary partial;
  partial.type = p.type;
  partial.placement = ProducedPartition(p, layout);
  Partition& placement = partial.placement;
  placement.shape.insert(placement.shape.begin(), layout.split_parts());
  placement.parts.insert(placement.parts.begin(), layout.split_parts());
  placement.grain.insert(placement.grain.begin(), 1);
  placement.tile_stride.insert(placement.tile_stride.begin(),
                               layout.space.tile_stride[static_cast<std::size_t>(layout.split)]);
  return partial;
}

}  // namespace

WindowPlacement WholePlacement(const Shape& operand, const Shape& slice_sizes) {
  WindowPlacement placement;
  std::copy(operand.begin(), operand.end(), placement.operand_dims);
  std::copy(slice_sizes.begin(), slice_sizes.end(), placement.slice_sizes);
  return placement;
}

Partition GatherOutputPartition(const GatherProblem& problem, const TargetModel& target, unsigned num_tiles) {
  const Layout layout = ChooseLayout(problem, target, num_tiles);
  if (layout.split >= 0) return SpreadPartition(problem.out, problem.type, num_tiles);
  return ProducedPartition(problem, layout);
}

DevicePlan PlanGather(const GatherProblem& problem, const TargetModel& target, unsigned num_tiles) {
  const auto p = std::make_shared<const GatherProblem>(problem);
  const auto layout = std::make_shared<const Layout>(ChooseLayout(problem, target, num_tiles));
  const std::int64_t parts = layout->split_parts();
  const bool split = layout->split >= 0;
  const std::size_t split_dim = static_cast<std::size_t>(std::max(0, layout->split));
  DevicePlan plan;
  if (NumElements(problem.out) == 0) return plan;

  VertexGroup group;
  group.codelet = p->codelet;
  group.vertices = layout->space.Vertices();
  group.code_bytes = 400;
  group.vertex_bytes = 32;
  group.reads.push_back(
      {{OperandRef::Kind::kInput, 0}, [p](const Box& box) { return OperandRegion(*p, box); }});
  AddIndexReads(p, &group, [p](const Box& box) { return OutRegion(*p, box); });
  group.cycles = [p, type = p->type](const TargetModel& t, const Box& box) {
    const Box out = OutRegion(*p, box);
    std::int64_t rows = 1;
    for (int b = 0; b < p->window.batch_rank; ++b) {
      const std::size_t d = static_cast<std::size_t>(p->window.batch_dim[b]);
      rows *= out.end[d] - out.begin[d];
    }
    return SliceCycles(t, type, rows, rows > 0 ? out.num_elements() / rows : 0, p->window.num_wraps);
  };
  group.compute = [p, split](HostContext& context, const Box& box, const std::vector<HostTensor>& reads,
                             const std::vector<HostTensor>& writes) {
    std::int64_t storage[kMaxRank];
    HostTensor out = writes[0];
    WindowPlacement placement = LocalPlacement(*p, box);
    if (split) {
      placement.clipped = true;
      std::memset(out.data, 0, static_cast<std::size_t>(out.num_elements()) * SizeOf(out.type));
      for (int d = 1; d < out.rank; ++d) {
        out.shape[d - 1] = out.shape[d];
        out.strides[d - 1] = out.strides[d];
      }
      --out.rank;
    }
    Gather(context, p->window, placement, reads[0], LocalIndices(*p, reads, 1, storage), out);
  };
  if (!split) {
    group.writes.push_back(
        {{OperandRef::Kind::kOutput, 0}, [p](const Box& box) { return OutRegion(*p, box); }});
    plan.supersteps.push_back({{std::move(group)}});
    return plan;
  }

  plan.temporaries.push_back(PartialResults(*p, *layout));
  group.writes.push_back({{OperandRef::Kind::kTemporary, 0}, [p, layout, split_dim](const Box& box) {
                            Box region = OutRegion(*p, box);
                            const std::int64_t part =
                                layout->space.PartOf(static_cast<int>(split_dim), box.begin[split_dim]);
                            region.begin.insert(region.begin.begin(), part);
                            region.end.insert(region.end.begin(), part + 1);
                            return region;
                          }});
  plan.supersteps.push_back({{std::move(group)}});

  VertexGroup pick;
  pick.codelet = p->codelet + "PickPart";
  pick.vertices = SpreadPartition(p->out, p->type, num_tiles).Vertices();
  pick.code_bytes = 200;
  pick.vertex_bytes = 24;
  pick.reads.push_back({{OperandRef::Kind::kTemporary, 0}, [parts](const Box& box) {
                          Box region = box;
                          region.begin.insert(region.begin.begin(), 0);
                          region.end.insert(region.end.begin(), parts);
                          return region;
                        }});
  AddIndexReads(p, &pick, [](const Box& box) { return box; });
  pick.writes.push_back({{OperandRef::Kind::kOutput, 0}, [](const Box& box) { return box; }});
  pick.compute = [p, layout](HostContext&, const Box& box, const std::vector<HostTensor>& reads,
                             const std::vector<HostTensor>& writes) {
    PickParts(*p, *layout, box, reads, writes[0]);
  };
  pick.cycles = [p](const TargetModel& t, const Box& box) {
    std::int64_t rows = 1;
    for (int b = 0; b < p->window.batch_rank; ++b) {
      const std::size_t d = static_cast<std::size_t>(p->window.batch_dim[b]);
      rows *= box.end[d] - box.begin[d];
    }
    return SliceCycles(t, p->type, rows, rows > 0 ? box.num_elements() / rows : 0, p->window.num_wraps);
  };
  plan.supersteps.push_back({{std::move(pick)}});
  return plan;
}

}  // namespace ipu_model
