// The supersteps of a convolution and their vertices.
#include "operations/convolution/convolution_plan.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "core/target/target_model.h"
#include "kernels/host/integer_division.h"
#include "operations/arithmetic.h"
#include "operations/convolution/convolution_cost.h"
#include "operations/convolution/convolution_regions.h"
#include "operations/convolution/convolution_serial.h"
#include "operations/convolution/convolution_vertices.h"
#include "operations/product/product_cost.h"

namespace ipu_model {
namespace {

// Model estimates (low confidence): supervisor and worker code of one codelet, and the state of one vertex.
constexpr std::uint64_t kMatrixUnitCodeBytes = 2048, kVectorCodeBytes = 1024, kReduceCodeBytes = 512;
constexpr std::uint64_t kVertexBytes = 40;
constexpr std::uint64_t kBytesPerWorklist = 8;

ConvolutionWork WorkOfBox(const ConvolutionProblem& p, const Box& box, std::int64_t tiles,
                          const SerialSplit& serial) {
  const std::int64_t groups = EndGroup(p, box) - FirstGroup(p, box);
  ConvolutionWork work = WorkOf(p, box.extents().data(), groups,
                                CeilDivide(box.end[kFeatureDim] - box.begin[kFeatureDim], groups), tiles);
  ShareOfStep(p, serial, &work);
  return work;
}

std::string CodeletName(const ConvolutionProblem& p, ConvolutionCodelet codelet, DType sum) {
  const char* name = "poplin::ConvPartialScalar";
  switch (codelet) {
    case ConvolutionCodelet::kAmp1x1:
      name = "poplin::ConvPartial1x1Out";
      break;
    case ConvolutionCodelet::kAmpNx1:
      name = "poplin::ConvPartialnx1";
      break;
    case ConvolutionCodelet::kSlic:
      name = "poplin::ConvPartial1xNSLIC";
      break;
    case ConvolutionCodelet::kHorizontalMac:
      name = "poplin::ConvPartialHorizontalMac";
      break;
    case ConvolutionCodelet::kVerticalMac:
      name = "poplin::ConvPartialVerticalMac";
      break;
    case ConvolutionCodelet::kOuterProduct:
      return std::string("poplin::OuterProduct<") + NameOf(p.in_type) + ">";
    case ConvolutionCodelet::kScalar:
      break;
  }
  return std::string(name) + "<" + NameOf(p.in_type) + "," + NameOf(sum) + ">";
}

// Returns the box with the largest extents of any part of a split.
Box LargestBox(const Grid& split) {
  Box box;
  for (std::size_t d = 0; d < split.shape.size(); ++d) {
    box.begin.push_back(0);
    box.end.push_back(split.LargestPart(static_cast<int>(d)));
  }
  return box;
}

}  // namespace

ConvolutionWork WorkOf(const ConvolutionProblem& p, const std::int64_t* extents, std::int64_t groups,
                       std::int64_t features, std::int64_t tiles) {
  ConvolutionWork work;
  work.groups = groups;
  work.features = features;
  work.channels = extents[kChannelDim];
  work.batch = extents[kBatchDim];
  work.all_groups = p.groups();
  work.all_features = p.features_per_group();
  work.all_channels = p.rhs[1];
  work.all_batch = p.out[0];
  work.tiles = std::max<std::int64_t>(1, tiles);
  work.most_temporary_bytes = p.most_temporary_bytes;
  work.weight_update = p.weight_update;
  work.all_inputs = p.out[0] * p.rhs[1];
  work.input_elements = work.groups * work.batch * work.channels;
  for (std::size_t d = 0; d < p.spatial(); ++d) {
    // A kernel of two dimensions has no middle one, a kernel of one dimension only the innermost. More than
    // three are counted as one in the middle.
    const std::size_t at = d + 1 == p.spatial() ? 2 : std::min<std::size_t>(d, 1);
    const ConvolutionWindow& w = p.geometry.window[d];
    ConvolutionWork::Dim& dim = work.dims[at];
    const std::int64_t in = p.lhs[d + 2], kernel = p.rhs[d + 2];
    const std::int64_t out_part = extents[kPositionDims + d], kernel_part = extents[KernelDim(p, d)];
    dim.out *= out_part;
    dim.kernel *= kernel_part;
    dim.stride = w.stride;
    dim.lhs_dilation = w.lhs_dilation;
    dim.plain = dim.plain && w.lhs_dilation == 1 && w.rhs_dilation == 1 && !w.reversed;
    dim.flattens =
        kernel == 1 && w.stride == 1 && w.lhs_dilation == 1 && w.padding_low == 0 && p.out[d + 2] == in;
    dim.folds = in >= kernel;
    work.all_out[at] *= p.out[d + 2];
    work.all_kernel[at] *= kernel;
    work.all_inputs *= in;
    const std::int64_t reach =
        ((out_part - 1) * w.stride + (kernel_part - 1) * w.rhs_dilation) / w.lhs_dilation + 1;
    work.input_elements *= std::min(reach, in);
  }
  return work;
}

bool UsesMatrixUnit(const ConvolutionProblem& problem, const ConvolutionSplit& split,
                    const TargetModel& target) {
  if (NumElements(problem.out) == 0) return false;
  const Box box = BoxOfStep(LargestBox(split.grid), split.serial, 0);
  const ConvolutionWork largest = WorkOfBox(problem, box, split.grid.num_parts(), split.serial);
  return IsMatrixUnit(ChooseCodelet(target, problem.in_type, problem.half_step > 0, largest).codelet);
}

double ConvolutionProblem::multiply_adds() const {
  double n = static_cast<double>(out[0] * out[1] * rhs[1]);
  for (std::size_t d = 0; d < spatial(); ++d)
    n *= PairsOnInput(geometry.window[d], rhs[d + 2], lhs[d + 2], out[d + 2]);
  return n;
}

namespace {

// The supersteps of a convolution.
class Planner {
 public:
  Planner(const ConvolutionProblem& problem, const Grid& split, const SerialSplit& serial, const View& out,
          const DeviceContext& context)
      : p_(std::make_shared<const ConvolutionProblem>(problem)),
        split_(std::make_shared<const Grid>(split)),
        serial_(serial),
        sum_(problem.SumType()),
        tiles_(split.num_parts()),
        target_(context.target()),
        out_vertices_(context.mapping(out.variable).VerticesOver(out, context.num_tiles())) {
    for (std::size_t d : ContractedDims(problem)) partials_ *= split.parts[d];
  }

  TilePlan Plan() {
    TilePlan plan;
    // Partial sums of one part that have the result's type are the result.
    const ConvolutionChoice choice = LargestChoice();
    const bool summed =
        partials_ > 1 || (serial_.adds() && sum_ != p_->out_type) || p_->casts(choice.codelet);
    if (summed) plan.temporaries.push_back({sum_, Placement()});
    const bool copies = choice.copy_cycles > 0, keeps = serial_.keeps_input;
    pads_ = choice.codelet == ConvolutionCodelet::kSlic && p_->spatial() > 0 && MissingTaps() > 0;
    if (keeps) {
      kept_ = static_cast<unsigned>(plan.temporaries.size());
      plan.temporaries.push_back({p_->in_type, KeptPlacement()});
      if (copies) plan.supersteps.push_back({{InputCopy()}});
      plan.supersteps.push_back({{KeepInput()}});
    }
    for (std::int64_t step = 0; step < serial_.steps(); ++step) {
      // PopLibs' steps are trips of loops.
      if (copies && !keeps) plan.supersteps.push_back({{InputCopy()}, step > 0});
      if (pads_) plan.supersteps.push_back({{Padding()}, step > 0});
      plan.supersteps.push_back({{Products(step, summed)}, step > 0});
      if (summed && serial_.IsLastSum(step))
        plan.supersteps.push_back({{Sums(step)}, serial_.OutputStep(step) > 0});
    }
    return plan;
  }

 private:
  // Partial sums of steps over outputs have the part of the output channels as another dimension.
  Grid Placement() const {
    Grid placement = PartialsPlacement(*p_, *split_);
    if (!serial_.cuts_outputs()) return placement;
    const std::size_t at = ContractedDims(*p_).size();
    const auto insert = [at](Shape& values, std::int64_t value) {
      values.insert(values.begin() + static_cast<std::ptrdiff_t>(at), value);
    };
    insert(placement.shape, split_->parts[kFeatureDim]);
    insert(placement.parts, split_->parts[kFeatureDim]);
    insert(placement.grain, 1);
    insert(placement.tile_stride, split_->tile_stride[kFeatureDim]);
    const std::size_t features = at + 2;
    placement.shape[features] = std::min(serial_.outputs.size, split_->LargestPart(kFeatureDim));
    placement.parts[features] = placement.grain[features] = 1;
    placement.tile_stride[features] = 0;
    return placement;
  }

  // Returns the region of partial sums that has the output channels [begin, end) of one part at `step`.
  static void ToStep(const Grid& split, const SerialSplit& serial, std::int64_t step, std::size_t leading,
                     Box* region) {
    if (!serial.cuts_outputs()) return;
    const std::size_t features = leading + 1;
    const std::int64_t part = split.PartOf(kFeatureDim, region->begin[features]);
    const std::int64_t first = split.Begin(kFeatureDim, part) + serial.OutputStep(step) * serial.outputs.size;
    region->begin[features] -= first;
    region->end[features] -= first;
    region->begin.insert(region->begin.begin() + static_cast<std::ptrdiff_t>(leading), part);
    region->end.insert(region->end.begin() + static_cast<std::ptrdiff_t>(leading), part + 1);
  }

  // The place of the input that every tile keeps: [tiles, *region], as the regions of neighbours overlap.
  Grid KeptPlacement() const {
    Shape region(p_->lhs.size(), 1);
    for (const Vertex& v : split_->Vertices()) {
      const Shape extents = LhsRegion(*p_, v.box).extents();
      for (std::size_t d = 0; d < region.size(); ++d) region[d] = std::max(region[d], extents[d]);
    }
    Grid placement;
    placement.first_tile = split_->first_tile;
    placement.num_tiles = split_->num_tiles;
    placement.Append(tiles_, tiles_, 1);
    for (const std::int64_t extent : region) placement.Append(extent, 1, 0);
    return placement;
  }

  // Returns the region of the kept input that the vertex of `box` reads.
  static Box KeptRegion(const ConvolutionProblem& p, const Grid& split, const Box& box) {
    std::int64_t tile = 0;
    for (std::size_t d = 0; d < split.parts.size(); ++d)
      tile += split.PartOf(static_cast<int>(d), box.begin[d]) * split.tile_stride[d];
    const Shape extents = LhsRegion(p, box).extents();
    Box region;
    region.begin.assign(extents.size() + 1, 0);
    region.end = extents;
    region.begin[0] = tile;
    region.end.insert(region.end.begin(), tile + 1);
    return region;
  }

  // What a tile copies of its input: PopLibs' vertices read a group of channels with its halo as one piece of
  // memory ([channels / group, batch, field, group]), so what the tile has goes there beside what arrives.
  std::function<LocalCopy(const Box&, std::int64_t, std::int64_t)> Arranged() const {
    const std::int64_t group = std::max(1u, target_.AmpInputGroup(p_->in_type));
    // The innermost dimension of which a tile has a part with a halo, or that is padded, ends the rows.
    std::size_t inner = p_->spatial();
    while (inner > 0 && !pads_ && (split_->parts[kPositionDims + inner - 1] == 1 || p_->rhs[inner + 1] == 1))
      --inner;
    if (inner == 0) return {};
    return [p = p_, group, inner, pads = pads_](const Box& box, std::int64_t elements, std::int64_t held) {
      if (held == elements && !pads) return LocalCopy();
      const Shape region = LhsRegion(*p, box).extents();
      std::int64_t rows = CeilDivide(region[1], group) * region[0];
      for (std::size_t d = 0; d + 1 < inner; ++d) rows *= region[d + 2];
      return LocalCopy{CeilDivide(std::min(rows, elements) * held, elements), held};
    };
  }

  // The positions that PopLibs adds to a row of the kernel for SLIC, which takes four at a time.
  std::int64_t MissingTaps() const {
    constexpr std::int64_t kWindow = 4;
    return kWindow - 1 - (p_->rhs.back() - 1) % kWindow;
  }

  // Zeros for them and for the end of each row of the input, which PopLibs copies from the first tile for
  // every convolution (lib/poplin/ConvVertices.cpp, Padder). What arrives is in its cycles, with the sync
  // before.
  VertexGroup Padding() const {
    VertexGroup group;
    group.codelet = "poplin::Padder";
    group.vertices = split_->Vertices();
    group.compute = [](HostContext&, const Box&, const std::vector<HostTensor>&,
                       const std::vector<HostTensor>&) {};
    group.cycles = [p = p_, missing = MissingTaps()](const TargetModel& target, const Box& box) {
      Box input = LhsRegion(*p, box), kernel = RhsRegion(*p, box);
      for (Box* const region : {&input, &kernel}) region->end.back() = region->begin.back() + missing;
      const std::int64_t bytes = input.num_elements() * static_cast<std::int64_t>(SizeOf(p->in_type)) +
                                 kernel.num_elements() * static_cast<std::int64_t>(SizeOf(p->rhs_type));
      return target.sync_cycles +
             static_cast<std::uint64_t>(CeilDivide(bytes, std::int64_t{target.exchange_bytes_per_cycle}));
    };
    return group;
  }

  // What it moves is in the cycles of its exchange.
  VertexGroup KeepInput() const {
    VertexGroup group;
    group.codelet = "poplar::copy";
    group.is_copy = true;
    group.vertices = split_->Vertices();
    group.reads = {{{OperandRef::Kind::kInput, 0},
                    [p = p_](const Box& box) { return LhsRegion(*p, box); },
                    false,
                    Arranged()}};
    group.writes = {{{OperandRef::Kind::kTemporary, kept_},
                     [p = p_, split = split_](const Box& box) { return KeptRegion(*p, *split, box); }}};
    group.compute = [](HostContext&, const Box&, const std::vector<HostTensor>& reads,
                       const std::vector<HostTensor>& writes) {
      std::memcpy(writes[0].data, reads[0].data,
                  static_cast<std::size_t>(reads[0].num_elements()) * SizeOf(reads[0].type));
    };
    return group;
  }

  ConvolutionChoice LargestChoice() const {
    return ChooseCodelet(target_, p_->in_type, p_->half_step > 0,
                         WorkOfBox(*p_, BoxOfStep(LargestBox(*split_), serial_, 0), tiles_, serial_));
  }

  // The copy of an input whose kernel positions become channels. What it moves is in its cycles: the products
  // read the input itself.
  VertexGroup InputCopy() const {
    VertexGroup group;
    group.codelet = "poplar::copy";
    group.vertices = split_->Vertices();
    group.compute = [](HostContext&, const Box&, const std::vector<HostTensor>&,
                       const std::vector<HostTensor>&) {};
    group.cycles = [p = p_, serial = serial_, tiles = tiles_](const TargetModel& target, const Box& box) {
      return ChooseCodelet(target, p->in_type, p->half_step > 0,
                           WorkOfBox(*p, BoxOfStep(box, serial, 0), tiles, serial))
          .copy_cycles;
    };
    return group;
  }

  VertexGroup Products(std::int64_t step, bool summed) const {
    VertexGroup group;
    group.vertices = split_->Vertices();
    if (serial_.split()) {
      for (Vertex& v : group.vertices) v.box = BoxOfStep(v.box, serial_, step);
      // A part with fewer elements than steps is idle in the remaining steps.
      const auto empty = [](const Vertex& v) { return v.box.num_elements() == 0; };
      group.vertices.erase(std::remove_if(group.vertices.begin(), group.vertices.end(), empty),
                           group.vertices.end());
    }
    group.reads = {{{OperandRef::Kind::kInput, 0},
                    [p = p_](const Box& box) { return LhsRegion(*p, box); },
                    false,
                    Arranged()},
                   {{OperandRef::Kind::kInput, 1}, [p = p_](const Box& box) { return RhsRegion(*p, box); }}};
    if (serial_.keeps_input) {
      group.reads[0] = {{OperandRef::Kind::kTemporary, kept_},
                        [p = p_, split = split_](const Box& box) { return KeptRegion(*p, *split, box); }};
    }
    if (summed) {
      group.writes = {{{OperandRef::Kind::kTemporary, 0},
                       [p = p_, split = split_, serial = serial_, step](const Box& box) {
                         Box region = PartialsRegion(*p, *split, box);
                         ToStep(*split, serial, step, ContractedDims(*p).size(), &region);
                         return region;
                       }}};
    } else {
      group.writes = {
          {{OperandRef::Kind::kOutput, 0}, [p = p_](const Box& box) { return OutRegion(*p, box); }}};
    }
    const bool adds = serial_.SumStep(step) > 0;
    if (adds) group.reads.push_back(group.writes[0]);
    group.compute = [p = p_, adds](HostContext& context, const Box& box, const std::vector<HostTensor>& reads,
                                   const std::vector<HostTensor>& writes) {
      if (adds) return ComputeLaterConvolution(*p, context, box, reads, writes[0]);
      ComputeConvolution(*p, context, box, reads, writes[0], /*add=*/false);
    };
    group.cycles = [p = p_, serial = serial_, tiles = tiles_, sum = sum_, adds](const TargetModel& target,
                                                                                const Box& box) {
      const ConvolutionWork work = WorkOfBox(*p, box, tiles, serial);
      const std::uint64_t cycles = ChooseCodelet(target, p->in_type, p->half_step > 0, work).cycles;
      return adds ? cycles + StepAddCycles(target, sum, OutRegion(*p, box).num_elements()) : cycles;
    };
    group.call_cycles = StepSliceCycles(target_, *p_, tiles_, serial_, serial_.IsLastSum(step));
    const ConvolutionChoice choice = LargestChoice();
    group.codelet = CodeletName(*p_, choice.codelet, sum_);
    group.code_bytes = IsMatrixUnit(choice.codelet) ? kMatrixUnitCodeBytes : kVectorCodeBytes;
    group.vertex_bytes =
        kVertexBytes + kBytesPerWorklist * static_cast<std::uint64_t>(choice.kernel_positions);
    return group;
  }

  // Adds the partial sums of all parts, or of those that step `step` computes.
  VertexGroup Sums(std::int64_t step) const {
    VertexGroup group;
    group.codelet = std::string("poplin::ReduceAdd<") + NameOf(p_->out_type) + "," + NameOf(sum_) + ">";
    group.vertices = SumsOfStep(step);
    group.reads = {
        {{OperandRef::Kind::kTemporary, 0}, [p = p_, split = split_, serial = serial_, step](const Box& box) {
           Box region;
           for (std::size_t d : ContractedDims(*p)) {
             region.begin.push_back(0);
             region.end.push_back(split->parts[d]);
           }
           const std::size_t leading = region.begin.size();
           region.begin.insert(region.begin.end(), box.begin.begin(), box.begin.end());
           region.end.insert(region.end.end(), box.end.begin(), box.end.end());
           ToStep(*split, serial, step, leading, &region);
           return region;
         }}};
    group.writes = {{{OperandRef::Kind::kOutput, 0}, [](const Box& box) { return box; }, true}};
    group.compute = [](HostContext& context, const Box&, const std::vector<HostTensor>& reads,
                       const std::vector<HostTensor>& writes) {
      AddConvolutionParts(context, reads[0], writes[0]);
    };
    group.cycles = [sum = sum_, partials = partials_, out_type = p_->out_type](const TargetModel& target,
                                                                               const Box& box) {
      return ReducePartialsCycles(target, sum, out_type, partials, box.num_elements());
    };
    group.code_bytes = kReduceCodeBytes;
    group.vertex_bytes = kVertexBytes;
    return group;
  }

  // The tiles that have the result add its sums. Where few of them have that of a step, as if channels are
  // not innermost, the tiles that have the partial sums do, as in PopLibs, and the result moves.
  std::vector<Vertex> SumsOfStep(std::int64_t step) const {
    if (!serial_.cuts_outputs()) return out_vertices_;
    std::vector<Vertex> owners = OutputsOfStep(step), holders = HoldersOfStep(step);
    return MostOnATile(owners) > 2 * MostOnATile(holders) ? holders : owners;
  }

  static std::int64_t MostOnATile(const std::vector<Vertex>& vertices) {
    std::map<unsigned, std::int64_t> elements;
    std::int64_t most = 0;
    for (const Vertex& v : vertices) most = std::max(most, elements[v.tile] += v.box.num_elements());
    return most;
  }

  // The tiles that have partial sums of the same outputs share these.
  std::vector<Vertex> HoldersOfStep(std::int64_t step) const {
    std::vector<Vertex> vertices;
    SerialSplit outputs;
    outputs.outputs = serial_.outputs;
    for (const Vertex& v : split_->Vertices()) {
      Box out = OutRegion(*p_, BoxOfStep(v.box, outputs, serial_.OutputStep(step)));
      if (out.num_elements() == 0) continue;
      std::int64_t part = 0;
      for (const std::size_t d : ContractedDims(*p_))
        part = part * split_->parts[d] + split_->PartOf(static_cast<int>(d), v.box.begin[d]);
      const Shape extents = out.extents();
      const auto largest =
          static_cast<std::size_t>(std::max_element(extents.begin(), extents.end()) - extents.begin());
      const std::int64_t begin = out.begin[largest], extent = extents[largest];
      out.begin[largest] = begin + extent * part / partials_;
      out.end[largest] = begin + extent * (part + 1) / partials_;
      if (out.num_elements() > 0) vertices.push_back({v.tile, std::move(out)});
    }
    return vertices;
  }

  // Cuts the vertices of the result: each output channel is in the range of one part.
  std::vector<Vertex> OutputsOfStep(std::int64_t step) const {
    std::vector<Vertex> vertices;
    for (const Vertex& v : out_vertices_) {
      const std::int64_t end = v.box.end[1];
      for (std::int64_t at = v.box.begin[1]; at < end;) {
        const std::int64_t part = split_->PartOf(kFeatureDim, at);
        const std::int64_t next = split_->Begin(kFeatureDim, part + 1);
        const auto [first, last] =
            serial_.outputs.Range(split_->Begin(kFeatureDim, part), next, serial_.OutputStep(step));
        Vertex cut = v;
        cut.box.begin[1] = std::max(at, first);
        cut.box.end[1] = std::min(end, last);
        if (cut.box.begin[1] < cut.box.end[1]) vertices.push_back(std::move(cut));
        at = next;
      }
    }
    return vertices;
  }

  const std::shared_ptr<const ConvolutionProblem> p_;
  const std::shared_ptr<const Grid> split_;
  const SerialSplit serial_;
  const DType sum_;
  const std::int64_t tiles_;
  const TargetModel& target_;
  const std::vector<Vertex> out_vertices_;
  std::int64_t partials_ = 1;
  unsigned kept_ = 0;  // the temporary of the kept input
  bool pads_ = false;  // whether SLIC's rows are padded with zeros
};

}  // namespace

TilePlan PlanConvolution(const ConvolutionProblem& problem, const ConvolutionSplit& split, const View& out,
                         const DeviceContext& context) {
  if (NumElements(problem.out) == 0) return {};
  return Planner(problem, split.grid, split.serial, out, context).Plan();
}

}  // namespace ipu_model
