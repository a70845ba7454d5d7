// Vertices of convolutions, and the mappings that fit a split.
#include "operations/convolution/convolution_plan.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "core/target_model.h"
#include "kernels/convolution/convolution_layout.h"
#include "kernels/convolution/convolution_overlap.h"
#include "kernels/host/integer_division.h"
#include "operations/convolution/convolution_cost.h"
#include "operations/product/half_partials.h"

namespace ipu_model {
namespace {

// Dimensions of the iteration space.
constexpr std::size_t kBatch = 0, kFeature = 1, kChannel = 2, kPositions = 3;

// Model estimates (low confidence): supervisor and worker code of one codelet, and the state of one vertex.
constexpr std::uint64_t kMatrixUnitCodeBytes = 2048, kVectorCodeBytes = 1024, kReduceCodeBytes = 512;
constexpr std::uint64_t kVertexBytes = 40;
constexpr std::uint64_t kBytesPerWorklist = 8;

using ProblemRef = std::shared_ptr<const ConvolutionProblem>;

std::size_t KernelDim(const ConvolutionProblem& p, std::size_t d) { return kPositions + p.spatial() + d; }

// Returns the first convolution group of the features of a box.
std::int64_t FirstGroup(const ConvolutionProblem& p, const Box& box) {
  return box.begin[kFeature] / p.features_per_group();
}
std::int64_t EndGroup(const ConvolutionProblem& p, const Box& box) {
  return (box.end[kFeature] - 1) / p.features_per_group() + 1;
}

// Returns the input positions along spatial dimension d that the box reads: its outputs plus a halo.
std::pair<std::int64_t, std::int64_t> InputRange(const ConvolutionProblem& p, const Box& box, std::size_t d) {
  const ConvolutionWindow& w = p.geometry.window[d];
  const std::size_t q = kPositions + d, k = KernelDim(p, d);
  const std::int64_t low = box.begin[q] * w.stride + box.begin[k] * w.rhs_dilation - w.padding_low;
  const std::int64_t high = (box.end[q] - 1) * w.stride + (box.end[k] - 1) * w.rhs_dilation - w.padding_low;
  const std::int64_t size = p.lhs[d + 2];
  const std::int64_t begin = std::clamp<std::int64_t>(CeilDivide(low, w.lhs_dilation), 0, size);
  const std::int64_t end = std::clamp<std::int64_t>(FloorDivide(high, w.lhs_dilation) + 1, begin, size);
  return {begin, end};
}

Box LhsRegion(const ConvolutionProblem& p, const Box& box) {
  Box region = Box::Whole(p.lhs);
  const std::int64_t first = FirstGroup(p, box), end = EndGroup(p, box);
  const std::int64_t batch = p.out[0], channels = p.rhs[1];
  if (p.geometry.batch_groups > 1) {
    region.begin[0] = first * batch;
    region.end[0] = end * batch;
  } else {
    region.begin[0] = box.begin[kBatch];
    region.end[0] = box.end[kBatch];
  }
  if (p.geometry.feature_groups > 1) {
    region.begin[1] = first * channels;
    region.end[1] = end * channels;
  } else {
    region.begin[1] = box.begin[kChannel];
    region.end[1] = std::min(box.end[kChannel], p.lhs[1]);
  }
  for (std::size_t d = 0; d < p.spatial(); ++d) {
    std::tie(region.begin[d + 2], region.end[d + 2]) = InputRange(p, box, d);
  }
  return region;
}

Box RhsRegion(const ConvolutionProblem& p, const Box& box) {
  // A contraction over no elements has one part, which reads nothing and writes zeros.
  Box region = Box::Whole(p.rhs);
  region.begin[0] = box.begin[kFeature];
  region.end[0] = box.end[kFeature];
  region.begin[1] = box.begin[kChannel];
  region.end[1] = std::min(box.end[kChannel], p.rhs[1]);
  for (std::size_t d = 0; d < p.spatial(); ++d) {
    const std::size_t k = KernelDim(p, d);
    const bool reversed = p.geometry.window[d].reversed;
    const std::int64_t end = std::min(box.end[k], p.rhs[d + 2]);
    region.begin[d + 2] = reversed ? p.rhs[d + 2] - end : box.begin[k];
    region.end[d + 2] = reversed ? p.rhs[d + 2] - box.begin[k] : end;
  }
  return region;
}

Box OutRegion(const ConvolutionProblem& p, const Box& box) {
  Box region = Box::Whole(p.out);
  region.begin[0] = box.begin[kBatch];
  region.end[0] = box.end[kBatch];
  region.begin[1] = box.begin[kFeature];
  region.end[1] = box.end[kFeature];
  for (std::size_t d = 0; d < p.spatial(); ++d) {
    region.begin[d + 2] = box.begin[kPositions + d];
    region.end[d + 2] = box.end[kPositions + d];
  }
  return region;
}

// Returns the contracted dimensions of the iteration space.
std::vector<std::size_t> ContractedDims(const ConvolutionProblem& p) {
  std::vector<std::size_t> dims = {kChannel};
  for (std::size_t d = 0; d < p.spatial(); ++d) dims.push_back(KernelDim(p, d));
  return dims;
}

// Returns the placement of partial sums [parts of the contracted dimensions..., output dimensions...], each
// on the tile that computes it.
Partition PartialsPlacement(const ConvolutionProblem& p, const Partition& split) {
  Partition placement;
  placement.first_tile = split.first_tile;
  placement.num_tiles = split.num_tiles;
  const auto add = [&](std::int64_t size, std::int64_t grain, std::size_t d) {
    placement.shape.push_back(size);
    placement.parts.push_back(split.parts[d]);
    placement.grain.push_back(grain);
    placement.tile_stride.push_back(split.tile_stride[d]);
  };
  for (std::size_t d : ContractedDims(p)) add(split.parts[d], 1, d);
  add(p.out[0], split.grain[kBatch], kBatch);
  add(p.out[1], split.grain[kFeature], kFeature);
  for (std::size_t d = 0; d < p.spatial(); ++d) {
    add(p.out[d + 2], split.grain[kPositions + d], kPositions + d);
  }
  return placement;
}

Box PartialsRegion(const ConvolutionProblem& p, const Partition& split, const Box& box) {
  Box region;
  for (std::size_t d : ContractedDims(p)) {
    const std::int64_t part = split.PartOf(static_cast<int>(d), box.begin[d]);
    region.begin.push_back(part);
    region.end.push_back(part + 1);
  }
  const Box out = OutRegion(p, box);
  region.begin.insert(region.begin.end(), out.begin.begin(), out.begin.end());
  region.end.insert(region.end.end(), out.end.begin(), out.end.end());
  return region;
}

HostTensor Slice(HostTensor t, int dim, std::int64_t begin, std::int64_t end) {
  t.data = t.as<unsigned char>() + begin * t.strides[dim] * static_cast<std::int64_t>(SizeOf(t.type));
  t.shape[dim] = end - begin;
  return t;
}

HostTensor Region(HostTensor t, const Box& box) {
  for (int d = 0; d < t.rank; ++d)
    t = Slice(t, d, box.begin[static_cast<std::size_t>(d)], box.end[static_cast<std::size_t>(d)]);
  return t;
}

void ComputeInHalf(const ConvolutionProblem& p, HostContext& context, const ConvolutionGeometry& geometry,
                   const HostTensor& lhs, const HostTensor& rhs, const HostTensor& out) {
  // Memory order of the sums: [n, positions..., features].
  HostTensor sums = out;
  sums.type = DType::kF32;
  sums.strides[1] = 1;
  std::int64_t elements = out.shape[1];
  for (int d = out.rank - 1; d >= 0; --d) {
    if (d == 1) continue;
    sums.strides[d] = elements;
    elements *= out.shape[d];
  }
  sums.data = context.scratch.Allocate<float>(static_cast<std::size_t>(elements));
  std::fill_n(sums.as<float>(), elements, 0.0f);
  ConvolveHalfPartials(context, geometry, lhs, rhs, out.shape + 2, p.half_step, sums.as<float>());
  CopyConvert(context.pool, sums, out);
}

// Computes one vertex. `out` may have leading dimensions of size one (the part numbers of partial sums).
void ComputeVertex(const ConvolutionProblem& p, HostContext& context, const Box& box,
                   const std::vector<HostTensor>& reads, HostTensor out) {
  const int rank = static_cast<int>(p.out.size()), lead = out.rank - rank;
  for (int d = 0; d < rank; ++d) {
    out.shape[d] = out.shape[d + lead];
    out.strides[d] = out.strides[d + lead];
  }
  out.rank = rank;
  ConvolutionGeometry local = p.geometry;
  local.feature_groups = local.batch_groups = 1;
  for (std::size_t d = 0; d < p.spatial(); ++d) {
    ConvolutionWindow& w = local.window[d];
    w.padding_low += w.lhs_dilation * InputRange(p, box, d).first - box.begin[kPositions + d] * w.stride -
                     box.begin[KernelDim(p, d)] * w.rhs_dilation;
  }
  const std::int64_t features = p.features_per_group();
  const std::int64_t begin = box.begin[kFeature], end = box.end[kFeature];
  const std::int64_t first = FirstGroup(p, box);
  for (std::int64_t g = first; g < EndGroup(p, box); ++g) {
    const std::int64_t b = std::max(begin, g * features) - begin,
                       e = std::min(end, (g + 1) * features) - begin;
    HostTensor lhs = reads[0];
    if (p.geometry.feature_groups > 1) {
      lhs = Slice(lhs, 1, (g - first) * p.rhs[1], (g - first + 1) * p.rhs[1]);
    } else if (p.geometry.batch_groups > 1) {
      lhs = Slice(lhs, 0, (g - first) * p.out[0], (g - first + 1) * p.out[0]);
    }
    const HostTensor rhs = Slice(reads[1], 0, b, e), result = Slice(out, 1, b, e);
    if (p.half_step > 0) {
      ComputeInHalf(p, context, local, lhs, rhs, result);
    } else {
      Convolve(context, local, lhs, rhs, result);
    }
  }
}

ConvolutionWork WorkOfBox(const ConvolutionProblem& p, const Box& box, std::int64_t tiles) {
  const std::int64_t groups = EndGroup(p, box) - FirstGroup(p, box);
  return WorkOf(p, box.extents().data(), groups, CeilDivide(box.end[kFeature] - box.begin[kFeature], groups),
                tiles);
}

// Adds the partial sums of a vertex's region, in the order of their parts.
template <typename T>
void SumParts(const HostTensor& partials, std::int64_t parts, std::int64_t elements, T* sums) {
  const T* from = partials.as<const T>();
  std::memcpy(static_cast<void*>(sums), from, static_cast<std::size_t>(elements) * sizeof(T));
  for (std::int64_t i = 1; i < parts; ++i) {
    for (std::int64_t j = 0; j < elements; ++j) sums[j] += from[i * elements + j];
  }
}

void ReduceVertex(HostContext& context, const HostTensor& partials, const HostTensor& out) {
  const std::int64_t elements = out.num_elements();
  if (elements == 0) return;
  const std::int64_t parts = partials.num_elements() / elements;
  if (partials.type == DType::kF16) return SumHalfPartials(context, partials, parts, out);
  HostTensor sums = out;  // dense, like every local tensor
  sums.type = partials.type;
  sums.data = context.scratch.Allocate(static_cast<std::size_t>(elements) * SizeOf(partials.type));
  switch (partials.type) {
    case DType::kF32:
      SumParts(partials, parts, elements, sums.as<float>());
      break;
    case DType::kF64:
      SumParts(partials, parts, elements, sums.as<double>());
      break;
    case DType::kC64:
      SumParts(partials, parts, 2 * elements, sums.as<float>());
      break;
    case DType::kC128:
      SumParts(partials, parts, 2 * elements, sums.as<double>());
      break;
    case DType::kS32:
      SumParts(partials, parts, elements, sums.as<std::uint32_t>());
      break;
    default:
      SumParts(partials, parts, elements, sums.as<std::uint64_t>());
  }
  // signed and unsigned sums have the same bits
  if (out.type == DType::kU32 || out.type == DType::kU64) sums.type = out.type;
  CopyConvert(context.pool, sums, out);
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
    case ConvolutionCodelet::kScalar:
      break;
  }
  return std::string(name) + "<" + NameOf(p.in_type) + "," + NameOf(sum) + ">";
}

// Returns the box with the largest extents of any part of a split.
Box LargestBox(const Partition& split) {
  Box box;
  for (std::size_t d = 0; d < split.shape.size(); ++d) {
    box.begin.push_back(0);
    box.end.push_back(split.LargestPart(static_cast<int>(d)));
  }
  return box;
}

// Maps memory dimensions in the order `layout` to the parts of iteration dimensions `space_dim` (-1: not
// split).
Partition Placement(const Partition& split, const Shape& shape, const std::vector<int>& space_dim,
                    const Shape& layout) {
  Partition placement;
  placement.first_tile = split.first_tile;
  placement.num_tiles = split.num_tiles;
  for (std::int64_t dim : layout) {
    const std::size_t d = static_cast<std::size_t>(dim);
    const int from = space_dim[d];
    placement.shape.push_back(shape[d]);
    placement.parts.push_back(from < 0 ? 1 : split.parts[static_cast<std::size_t>(from)]);
    placement.grain.push_back(from < 0 ? 1 : split.grain[static_cast<std::size_t>(from)]);
    placement.tile_stride.push_back(from < 0 ? 0 : split.tile_stride[static_cast<std::size_t>(from)]);
  }
  return placement;
}

// Returns one box per tile: dimensions are split from major to minor in memory order, in whole vectors.
Partition SpreadEvenly(const Shape& shape, const Shape& layout, std::int64_t vector_width,
                       unsigned num_tiles) {
  Shape memory;
  for (std::int64_t d : layout) memory.push_back(shape[static_cast<std::size_t>(d)]);
  Partition placement = Partition::Grid(memory, Shape(memory.size(), 1), num_tiles);
  if (!memory.empty()) placement.grain.back() = vector_width;
  std::int64_t left = num_tiles;
  for (std::size_t d = 0; d < memory.size(); ++d) {
    placement.parts[d] = std::min(left, CeilDivide(memory[d], placement.grain[d]));
    left /= placement.parts[d];
  }
  std::int64_t stride = 1;
  for (std::size_t d = memory.size(); d-- > 0; stride *= placement.parts[d])
    placement.tile_stride[d] = stride;
  return placement;
}

// Splits a dimension over the parts of `space_dim`, which would otherwise hold copies: one that is not yet
// split, or else one whose parts lie so far apart that the tiles between them are those of the copies.
void SpreadOver(const Partition& split, std::size_t space_dim, std::int64_t vector_width,
                Partition* placement) {
  const std::int64_t copies = split.parts[space_dim], stride = split.tile_stride[space_dim];
  if (copies <= 1) return;
  const std::size_t rank = placement->shape.size();
  std::size_t best = rank;
  for (std::size_t d = rank; d-- > 0;) {
    if (placement->parts[d] != 1 || placement->shape[d] <= 1) continue;
    if (best == rank || placement->shape[d] > placement->shape[best]) best = d;
  }
  if (best < rank) {
    placement->grain[best] = best + 1 == rank ? vector_width : 1;
    const std::int64_t grains = CeilDivide(placement->shape[best], placement->grain[best]);
    placement->parts[best] = std::min(copies, grains);
    placement->tile_stride[best] = stride;
    return;
  }
  for (std::size_t d = 0; d < rank; ++d) {
    const std::int64_t grains = CeilDivide(placement->shape[d], placement->grain[d]);
    if (placement->tile_stride[d] != copies * stride || grains < placement->parts[d] * copies) continue;
    placement->parts[d] *= copies;
    placement->tile_stride[d] = stride;
    return;
  }
}

}  // namespace

ConvolutionWork WorkOf(const ConvolutionProblem& p, const std::int64_t* extents, std::int64_t groups,
                       std::int64_t features, std::int64_t tiles) {
  ConvolutionWork work;
  work.groups = groups;
  work.features = features;
  work.channels = extents[kChannel];
  work.batch = extents[kBatch];
  work.all_groups = p.groups();
  work.all_features = p.features_per_group();
  work.all_channels = p.rhs[1];
  work.all_batch = p.out[0];
  work.tiles = std::max<std::int64_t>(1, tiles);
  work.all_inputs = p.out[0] * p.rhs[1];
  work.input_elements = work.groups * work.batch * work.channels;
  for (std::size_t d = 0; d < p.spatial(); ++d) {
    // A kernel of two dimensions has no middle one, a kernel of one dimension only the innermost. More than
    // three are counted as one in the middle.
    const std::size_t at = d + 1 == p.spatial() ? 2 : std::min<std::size_t>(d, 1);
    const ConvolutionWindow& w = p.geometry.window[d];
    ConvolutionWork::Dim& dim = work.dims[at];
    const std::int64_t in = p.lhs[d + 2], kernel = p.rhs[d + 2];
    const std::int64_t out_part = extents[kPositions + d], kernel_part = extents[KernelDim(p, d)];
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

bool UsesMatrixUnit(const ConvolutionProblem& problem, const Partition& split, const TargetModel& target) {
  if (NumElements(problem.out) == 0) return false;
  const ConvolutionWork largest = WorkOfBox(problem, LargestBox(split), split.num_parts());
  return IsMatrixUnit(ChooseCodelet(target, problem.in_type, problem.half_step > 0, largest).codelet);
}

void ConvolveWhole(const ConvolutionProblem& p, const Partition& split, HostContext& context,
                   const HostTensor& lhs, const HostTensor& rhs, const HostTensor& out) {
  if (p.half_step == 0 || out.num_elements() == 0) return Convolve(context, p.geometry, lhs, rhs, out);
  const std::vector<std::size_t> dims = ContractedDims(p);
  std::int64_t partials = 1;
  for (std::size_t d : dims) partials *= split.parts[d];
  HostTensor total = out;
  total.type = DType::kF32;
  std::int64_t elements = 1;
  for (int d = total.rank - 1; d >= 0; elements *= total.shape[d--]) total.strides[d] = elements;
  total.data = context.scratch.Allocate<float>(static_cast<std::size_t>(elements));
  const auto compute = [&](std::int64_t part, float* sums) {
    Box box = Box::Whole(split.shape);
    for (std::size_t i = dims.size(); i-- > 0; part /= split.parts[dims[i]]) {
      const std::int64_t number = part % split.parts[dims[i]];
      box.begin[dims[i]] = split.Begin(static_cast<int>(dims[i]), number);
      box.end[dims[i]] = split.Begin(static_cast<int>(dims[i]), number + 1);
    }
    HostTensor result = total;
    result.data = sums;
    const Scratch::Mark mark = context.scratch.Save();
    ComputeVertex(p, context, box, {Region(lhs, LhsRegion(p, box)), Region(rhs, RhsRegion(p, box))}, result);
    context.scratch.Rewind(mark);
  };
  AccumulateHalfPartials(context, partials, 1, elements, compute, total.as<float>());
  CopyConvert(context.pool, total, out);
}

double ConvolutionProblem::multiply_adds() const {
  double n = static_cast<double>(NumElements(out)) * static_cast<double>(rhs[1]);
  for (std::size_t d = 0; d < spatial(); ++d) n *= static_cast<double>(rhs[d + 2]);
  return n;
}

// An operand that several tiles use is exchanged in any case. If `placement` would put it on few tiles, where
// it would take much memory and elementwise operations on it much time, it is spread evenly.
static Mapping SharedOperand(Partition placement, std::int64_t users, Partition even) {
  if (users > 1 && LargestBox(placement).num_elements() > LargestBox(even).num_elements())
    return Mapping(std::move(even));
  return Mapping(std::move(placement));
}

Mapping ConvolutionInputMapping(const ConvolutionProblem& p, const Partition& split, const Shape& layout,
                                const TargetModel& target) {
  if (NumElements(p.lhs) == 0) return {};
  std::vector<int> dims(p.lhs.size(), -1);
  if (p.geometry.batch_groups == 1) dims[0] = kBatch;
  if (p.geometry.feature_groups == 1) dims[1] = kChannel;
  for (std::size_t d = 0; d < p.spatial(); ++d) dims[d + 2] = static_cast<int>(kPositions + d);
  Partition placement = Placement(split, p.lhs, dims, layout);
  const std::int64_t width = target.VectorWidth(p.in_type);
  std::int64_t users = split.parts[kFeature];
  for (std::size_t d = 0; d < p.spatial(); ++d) users *= split.parts[KernelDim(p, d)];
  SpreadOver(split, kFeature, width, &placement);
  return SharedOperand(std::move(placement), users, SpreadEvenly(p.lhs, layout, width, split.num_tiles));
}

Mapping ConvolutionWeightsMapping(const ConvolutionProblem& p, const Partition& split, const Shape& layout,
                                  const TargetModel& target) {
  if (NumElements(p.rhs) == 0) return {};
  std::vector<int> dims(p.rhs.size(), -1);
  dims[0] = kFeature;
  dims[1] = kChannel;
  for (std::size_t d = 0; d < p.spatial(); ++d) dims[d + 2] = static_cast<int>(KernelDim(p, d));
  Partition placement = Placement(split, p.rhs, dims, layout);
  const std::int64_t width = target.VectorWidth(p.rhs_type);
  std::int64_t users = split.parts[kBatch];
  for (std::size_t d = 0; d < p.spatial(); ++d) {
    users *= split.parts[kPositions + d];
    SpreadOver(split, kPositions + d, width, &placement);
  }
  SpreadOver(split, kBatch, width, &placement);
  return SharedOperand(std::move(placement), users, SpreadEvenly(p.rhs, layout, width, split.num_tiles));
}

Mapping ConvolutionOutputMapping(const ConvolutionProblem& p, const Partition& split, const Shape& layout,
                                 const TargetModel& target, unsigned num_tiles) {
  if (NumElements(p.out) == 0) return {};
  std::int64_t contracted_parts = 1;
  for (std::size_t d : ContractedDims(p)) contracted_parts *= split.parts[d];
  if (contracted_parts > 1) {
    return Mapping(SpreadEvenly(p.out, layout, target.VectorWidth(p.out_type), num_tiles));
  }
  std::vector<int> dims(p.out.size());
  dims[0] = kBatch;
  dims[1] = kFeature;
  for (std::size_t d = 0; d < p.spatial(); ++d) dims[d + 2] = static_cast<int>(kPositions + d);
  return Mapping(Placement(split, p.out, dims, layout));
}

TilePlan PlanConvolution(const ConvolutionProblem& problem, const Partition& split, const View& out,
                         const DeviceContext& context) {
  TilePlan plan;
  if (NumElements(problem.out) == 0) return plan;
  const auto p = std::make_shared<const ConvolutionProblem>(problem);
  const auto parts = std::make_shared<const Partition>(split);
  const DType sum = p->SumType();
  std::int64_t partials = 1;
  for (std::size_t d : ContractedDims(*p)) partials *= split.parts[d];

  VertexGroup group;
  group.vertices = split.Vertices();
  group.reads = {{{OperandRef::Kind::kInput, 0}, [p](const Box& box) { return LhsRegion(*p, box); }},
                 {{OperandRef::Kind::kInput, 1}, [p](const Box& box) { return RhsRegion(*p, box); }}};
  if (partials > 1) {
    plan.temporaries.push_back({sum, PartialsPlacement(*p, split)});
    group.writes = {{{OperandRef::Kind::kTemporary, 0},
                     [p, parts](const Box& box) { return PartialsRegion(*p, *parts, box); }}};
  } else {
    group.writes = {{{OperandRef::Kind::kOutput, 0}, [p](const Box& box) { return OutRegion(*p, box); }}};
  }
  group.compute = [p](HostContext& context, const Box& box, const std::vector<HostTensor>& reads,
                      const std::vector<HostTensor>& writes) {
    ComputeVertex(*p, context, box, reads, writes[0]);
  };
  const std::int64_t tiles = split.num_parts();
  group.cycles = [p, tiles](const TargetModel& target, const Box& box) {
    return ChooseCodelet(target, p->in_type, p->half_step > 0, WorkOfBox(*p, box, tiles)).cycles;
  };
  const ConvolutionWork largest = WorkOfBox(*p, LargestBox(split), tiles);
  const ConvolutionCodelet codelet =
      ChooseCodelet(context.target(), p->in_type, p->half_step > 0, largest).codelet;
  group.codelet = CodeletName(*p, codelet, sum);
  group.code_bytes = IsMatrixUnit(codelet) ? kMatrixUnitCodeBytes : kVectorCodeBytes;
  group.vertex_bytes = kVertexBytes + kBytesPerWorklist * static_cast<std::uint64_t>(largest.taps());
  plan.supersteps.push_back({{std::move(group)}});
  if (partials == 1) return plan;

  VertexGroup reduce;
  reduce.codelet = std::string("poplin::ReduceAdd<") + NameOf(p->out_type) + "," + NameOf(sum) + ">";
  reduce.vertices = context.mapping(out.variable).VerticesOver(out, context.num_tiles());
  reduce.reads = {{{OperandRef::Kind::kTemporary, 0}, [p, parts](const Box& box) {
                     Box region;
                     for (std::size_t d : ContractedDims(*p)) {
                       region.begin.push_back(0);
                       region.end.push_back(parts->parts[d]);
                     }
                     region.begin.insert(region.begin.end(), box.begin.begin(), box.begin.end());
                     region.end.insert(region.end.end(), box.end.begin(), box.end.end());
                     return region;
                   }}};
  reduce.writes = {{{OperandRef::Kind::kOutput, 0}, [](const Box& box) { return box; }, true}};
  reduce.compute = [](HostContext& context, const Box&, const std::vector<HostTensor>& reads,
                      const std::vector<HostTensor>& writes) { ReduceVertex(context, reads[0], writes[0]); };
  reduce.cycles = [sum, partials, out_type = p->out_type](const TargetModel& target, const Box& box) {
    return ReducePartialsCycles(target, sum, out_type, partials, box.num_elements());
  };
  reduce.code_bytes = kReduceCodeBytes;
  reduce.vertex_bytes = kVertexBytes;
  plan.supersteps.push_back({{std::move(reduce)}});
  return plan;
}

}  // namespace ipu_model
