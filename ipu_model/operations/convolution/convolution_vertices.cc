#include "operations/convolution/convolution_vertices.h"

#include <algorithm>
#include <cstring>

#include "kernels/convolution/convolution_layout.h"
#include "operations/convolution/convolution_regions.h"
#include "operations/product/half_partials.h"

namespace ipu_model {
namespace {

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

// Computes out = lhs * rhs, plus what `out` holds if `add` is set.
void ComputeInHalf(const ConvolutionProblem& p, HostContext& context, const ConvolutionGeometry& geometry,
                   const HostTensor& lhs, const HostTensor& rhs, const HostTensor& out, bool add) {
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
  if (add) {
    CopyConvert(context.pool, out, sums);
  } else {
    std::fill_n(sums.as<float>(), elements, 0.0f);
  }
  ConvolveHalfPartials(context, geometry, lhs, rhs, out.shape + 2, p.half_step, sums.as<float>());
  CopyConvert(context.pool, sums, out);
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

// Drops leading dimensions, of size one.
HostTensor WithRank(HostTensor t, int rank) {
  const int lead = t.rank - rank;
  for (int d = 0; d < rank; ++d) {
    t.shape[d] = t.shape[d + lead];
    t.strides[d] = t.strides[d + lead];
  }
  t.rank = rank;
  return t;
}

}  // namespace

void AddConvolutionParts(HostContext& context, const HostTensor& partials, const HostTensor& out) {
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

void ComputeConvolution(const ConvolutionProblem& p, HostContext& context, const Box& box,
                        const std::vector<HostTensor>& reads, HostTensor out, bool add) {
  const int rank = static_cast<int>(p.out.size());
  out = WithRank(out, rank);
  ConvolutionGeometry local = p.geometry;
  local.feature_groups = local.batch_groups = 1;
  for (std::size_t d = 0; d < p.spatial(); ++d) {
    ConvolutionWindow& w = local.window[d];
    w.padding_low += w.lhs_dilation * InputRange(p, box, d).first - box.begin[kPositionDims + d] * w.stride -
                     box.begin[KernelDim(p, d)] * w.rhs_dilation;
  }
  const std::int64_t features = p.features_per_group();
  const std::int64_t begin = box.begin[kFeatureDim], end = box.end[kFeatureDim];
  const std::int64_t first = FirstGroup(p, box);
  for (std::int64_t g = first; g < EndGroup(p, box); ++g) {
    const std::int64_t b = std::max(begin, g * features) - begin,
                       e = std::min(end, (g + 1) * features) - begin;
    HostTensor lhs = WithRank(reads[0], rank);
    if (p.geometry.feature_groups > 1) {
      lhs = Slice(lhs, 1, (g - first) * p.rhs[1], (g - first + 1) * p.rhs[1]);
    } else if (p.geometry.batch_groups > 1) {
      lhs = Slice(lhs, 0, (g - first) * p.out[0], (g - first + 1) * p.out[0]);
    }
    const HostTensor rhs = Slice(reads[1], 0, b, e), result = Slice(out, 1, b, e);
    if (p.half_step > 0) {
      ComputeInHalf(p, context, local, lhs, rhs, result, add);
    } else {
      Convolve(context, local, lhs, rhs, result);
    }
  }
}

void ComputeLaterConvolution(const ConvolutionProblem& p, HostContext& context, const Box& box,
                             const std::vector<HostTensor>& reads, const HostTensor& out) {
  const std::size_t bytes = static_cast<std::size_t>(out.num_elements()) * SizeOf(out.type);
  if (p.half_step > 0) {
    std::memcpy(out.data, reads[2].data, bytes);
    return ComputeConvolution(p, context, box, reads, out, /*add=*/true);
  }
  HostTensor both;
  both.type = out.type;
  both.rank = 2;
  both.shape[0] = 2;
  both.shape[1] = out.num_elements();
  both.data = context.scratch.Allocate(2 * bytes);
  std::memcpy(both.data, reads[2].data, bytes);
  HostTensor products = out;
  products.data = both.as<unsigned char>() + bytes;
  ComputeConvolution(p, context, box, reads, products, /*add=*/false);
  AddConvolutionParts(context, both, out);
}

void ConvolveWhole(const ConvolutionProblem& p, const ConvolutionSplit& planned, HostContext& context,
                   const HostTensor& lhs, const HostTensor& rhs, const HostTensor& out) {
  if (p.half_step == 0 || out.num_elements() == 0) return Convolve(context, p.geometry, lhs, rhs, out);
  const std::vector<std::size_t> dims = ContractedDims(p);
  const Grid& split = planned.grid;
  std::int64_t partials = 1;
  for (std::size_t d : dims) partials *= split.parts[d];
  SerialSplit serial = planned.serial;
  serial.outputs = {};  // steps over outputs have the same bits
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
    for (std::int64_t step = 0; step < serial.steps(); ++step) {
      const Box cut = BoxOfStep(box, serial, step);
      if (step > 0 && cut.num_elements() == 0) continue;
      const Scratch::Mark mark = context.scratch.Save();
      ComputeConvolution(p, context, cut, {Region(lhs, LhsRegion(p, cut)), Region(rhs, RhsRegion(p, cut))},
                         result,
                         /*add=*/step > 0);
      context.scratch.Rewind(mark);
    }
  };
  AccumulateHalfPartials(context, partials, 1, elements, compute, total.as<float>());
  CopyConvert(context.pool, total, out);
}

}  // namespace ipu_model
