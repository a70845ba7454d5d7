// Lowers stablehlo.convolution to direct convolutions: types, layouts, reversal, convolution groups, input
// dilation.
#include "kernels/convolution/convolution.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "kernels/convolution/convolution_direct.h"
#include "kernels/convolution/convolution_layout.h"
#include "kernels/convolution/convolution_overlap.h"
#include "kernels/host/integer_division.h"

namespace ipu_model {
namespace {

// Sums of so few products are bound by memory traffic, so rounding each product costs nothing.
constexpr std::int64_t kShortSum = 4;

template <typename T>
void RunDirect(HostContext& context, const DirectConvolution<T>& p) {
  if (p.weight_gradient) {
    WeightGradientConvolution(context, p);
  } else {
    ForwardConvolution(context, p);
  }
}

// Splits dimension `d` and the following ones by the residues of output and kernel positions modulo the input
// dilation. Each output phase is a convolution without dilation with one phase of the kernel, or is empty.
template <typename T>
void RunPhases(HostContext& context, const ConvolutionGeometry& g, const DirectConvolution<T>& p, int d) {
  while (d < p.dims && g.window[d].lhs_dilation == 1) ++d;
  if (d == p.dims) return RunDirect(context, p);
  const std::int64_t dilation = g.window[d].lhs_dilation;
  const auto gcd = [](std::int64_t a, std::int64_t b) {
    while (b != 0) {
      const std::int64_t r = a % b;
      a = b;
      b = r;
    }
    return a;
  };
  const DirectDimension& whole = p.dim[d];
  const std::int64_t output_phases = dilation / gcd(whole.stride, dilation);
  const std::int64_t kernel_phases = dilation / gcd(whole.dilation, dilation);
  for (std::int64_t q = 0; q < std::min(output_phases, whole.output); ++q) {
    DirectConvolution<T> part = p;
    DirectDimension& dim = part.dim[d];
    part.out += q * whole.out;
    dim.out = whole.out * output_phases;
    dim.output = (whole.output - q + output_phases - 1) / output_phases;
    dim.stride = whole.stride * output_phases / dilation;
    dim.dilation = whole.dilation * kernel_phases / dilation;
    dim.kernel = 0;
    dim.padding = 0;
    for (std::int64_t k = 0; k < std::min(kernel_phases, whole.kernel); ++k) {
      const std::int64_t position = q * whole.stride + k * whole.dilation - whole.padding;
      if (FloorDivide(position, dilation) * dilation != position) continue;
      part.rhs = p.rhs + k * whole.rhs;
      dim.rhs = whole.rhs * kernel_phases;
      dim.kernel = (whole.kernel - k + kernel_phases - 1) / kernel_phases;
      dim.padding = -FloorDivide(position, dilation);
      break;
    }
    RunPhases(context, g, part, d + 1);
  }
}

template <typename T>
DirectConvolution<T> Describe(const ConvolutionGeometry& g, const HostTensor& lhs, const HostTensor& rhs,
                              const HostTensor& out) {
  DirectConvolution<T> p{};
  p.lhs = lhs.as<const T>();
  p.rhs = rhs.as<const T>();
  p.out = out.as<T>();
  p.batch = lhs.shape[0] / g.batch_groups;
  p.channels = rhs.shape[1];
  p.features = rhs.shape[0] / (g.feature_groups * g.batch_groups);
  p.lhs_batch = lhs.strides[0];
  p.lhs_channel = lhs.strides[1];
  p.rhs_feature = rhs.strides[0];
  p.rhs_channel = rhs.strides[1];
  p.out_batch = out.strides[0];
  p.out_feature = out.strides[1];
  p.dims = g.spatial;
  std::int64_t products = p.channels;
  for (int d = 0; d < g.spatial; ++d) {
    const ConvolutionWindow& w = g.window[d];
    DirectDimension& dim = p.dim[d];
    products *= rhs.shape[d + 2];
    dim = {lhs.shape[d + 2], rhs.shape[d + 2],   out.shape[d + 2],   w.stride,          w.rhs_dilation,
           w.padding_low,    lhs.strides[d + 2], rhs.strides[d + 2], out.strides[d + 2]};
    if (w.reversed) {
      p.rhs += (dim.kernel - 1) * dim.rhs;
      dim.rhs = -dim.rhs;
    }
  }
  p.rounded = std::is_floating_point_v<T> && products <= kShortSum;
  return p;
}

// Runs all convolution groups. The operands have the type of the sums.
template <typename T>
void RunGroups(HostContext& context, const ConvolutionGeometry& g, HostTensor lhs, const HostTensor& rhs,
               const HostTensor& out) {
  DirectConvolution<T> p = Describe<T>(g, lhs, rhs, out);
  const std::int64_t groups = std::max(g.feature_groups, g.batch_groups);
  const auto group_step = [&] {
    return g.batch_groups > 1 ? p.batch * p.lhs_batch : p.channels * p.lhs_channel;
  };
  // Depthwise: one input channel (or one element of the lhs batch) per group, so that vectors run over the
  // groups.
  const bool depthwise =
      groups > 1 && (g.batch_groups > 1 ? p.batch : p.channels) == 1 && (p.features <= 2 || groups >= 8);
  const bool gradient = p.weight_gradient = IsWeightGradient(p);
  const bool dilated = std::any_of(g.window, g.window + g.spatial,
                                   [](const ConvolutionWindow& w) { return w.lhs_dilation != 1; });

  int order[kMaxRank];
  for (int d = 0; d < g.spatial; ++d) order[d + 1] = d + 2;
  const bool batch_last = depthwise ? g.batch_groups > 1 : gradient;
  order[0] = batch_last ? 1 : 0;
  order[g.spatial + 1] = batch_last ? 0 : 1;
  const bool readable =
      depthwise ? group_step() == 1
                : (gradient ? p.lhs_batch == 1 || (!dilated && WeightGradientReads(p)) : ForwardReads(p));
  if (!readable) {
    lhs = DenseCopy(context, lhs, lhs.type, order);
    p.lhs = lhs.as<const T>();
    p.lhs_batch = lhs.strides[0];
    p.lhs_channel = lhs.strides[1];
    for (int d = 0; d < g.spatial; ++d) p.dim[d].lhs = lhs.strides[d + 2];
  }
  const DirectConvolution<T> first = p;
  if (depthwise) {
    for (std::int64_t f = 0; f < first.features; ++f) {
      DirectConvolution<T> one = first;
      one.channelwise = true;
      one.features = groups;
      one.rhs += f * first.rhs_feature;
      one.rhs_feature = first.features * first.rhs_feature;
      one.out += f * first.out_feature;
      one.out_feature = first.features * first.out_feature;
      RunPhases(context, g, one, 0);
    }
    return;
  }
  for (std::int64_t i = 0; i < groups; ++i) {
    DirectConvolution<T> one = first;
    one.lhs += i * group_step();
    one.rhs += i * first.features * first.rhs_feature;
    one.out += i * first.features * first.out_feature;
    RunPhases(context, g, one, 0);
  }
}

void RowMajor(int rank, int* order) {
  for (int d = 0; d < rank; ++d) order[d] = d;
}

// Turns a complex tensor [N, C, ...] into a real tensor [N, 2 C, ...]: a complex convolution is a real one
// with twice as many channels and features and the weights (re, -im; im, re).
HostTensor RealChannels(HostContext& context, const HostTensor& t, DType complex_type, DType real_type,
                        bool copy) {
  int order[kMaxRank];
  order[0] = 0;
  for (int d = 2; d < t.rank; ++d) order[d - 1] = d;
  if (t.rank > 1) order[t.rank - 1] = 1;
  HostTensor dense =
      copy ? DenseCopy(context, t, complex_type, order) : DenseTensor(context, t, complex_type, order);
  dense.type = real_type;
  for (int d = 0; d < dense.rank; ++d) dense.strides[d] *= 2;
  dense.shape[1] *= 2;
  dense.strides[1] = 1;
  return dense;
}

template <typename T>
HostTensor RealWeights(HostContext& context, const HostTensor& rhs, DType complex_type) {
  int order[kMaxRank];
  RowMajor(rhs.rank, order);
  const HostTensor from = DenseCopy(context, rhs, complex_type, order);
  HostTensor like = rhs;
  like.shape[0] *= 2;
  like.shape[1] *= 2;
  const HostTensor real = DenseTensor(context, like, StorageType<T>(), order);
  std::int64_t taps = 1;
  for (int d = 2; d < rhs.rank; ++d) taps *= rhs.shape[d];
  const T* in = from.as<const T>();
  T* out = real.as<T>();
  for (std::int64_t o = 0; o < rhs.shape[0]; ++o) {
    for (std::int64_t c = 0; c < rhs.shape[1]; ++c) {
      const T* pair = in + (o * rhs.shape[1] + c) * taps * 2;
      T* to = out + (o * 2 * like.shape[1] + c * 2) * taps;
      for (std::int64_t k = 0; k < taps; ++k) {
        const T re = pair[2 * k], im = pair[2 * k + 1];
        to[k] = re;
        to[taps + k] = -im;
        to[like.shape[1] * taps + k] = im;
        to[(like.shape[1] + 1) * taps + k] = re;
      }
    }
  }
  return real;
}

template <typename T>
void RunComplex(HostContext& context, const ConvolutionGeometry& g, const HostTensor& lhs,
                const HostTensor& rhs, const HostTensor& out, DType complex_type) {
  const HostTensor real_lhs = RealChannels(context, lhs, complex_type, StorageType<T>(), true);
  const HostTensor real_rhs = RealWeights<T>(context, rhs, complex_type);
  HostTensor real_out = RealChannels(context, out, complex_type, StorageType<T>(), false);
  RunGroups<T>(context, g, real_lhs, real_rhs, real_out);
  // View the same memory as complex numbers.
  for (int d = 0; d < out.rank; ++d) real_out.strides[d] /= 2;
  real_out.strides[1] = 1;
  real_out.shape[1] /= 2;
  real_out.type = complex_type;
  CopyConvert(context.pool, real_out, out);
}

template <typename T>
void RunAs(HostContext& context, const ConvolutionGeometry& g, HostTensor lhs, HostTensor rhs,
           const HostTensor& out, DType sum) {
  int order[kMaxRank];
  const auto to_sum = [&](const HostTensor& t) {
    if (t.type == sum) return t;
    // Keep the dimension order of the source's memory, so that the copy is sequential.
    RowMajor(t.rank, order);
    std::stable_sort(order, order + t.rank, [&](int a, int b) { return t.strides[a] > t.strides[b]; });
    return DenseCopy(context, t, sum, order);
  };
  lhs = to_sum(lhs);
  rhs = to_sum(rhs);
  HostTensor result = out;
  if (out.type != sum) {
    RowMajor(out.rank, order);
    std::stable_sort(order, order + out.rank, [&](int a, int b) { return out.strides[a] > out.strides[b]; });
    result = DenseTensor(context, out, sum, order);
  }
  RunGroups<T>(context, g, lhs, rhs, result);
  if (out.type != sum) CopyConvert(context.pool, result, out);
}

}  // namespace

DType ConvolutionSumType(DType lhs, DType rhs, DType out) {
  const DType types[] = {lhs, rhs, out};
  const auto any = [&](auto f) { return std::any_of(std::begin(types), std::end(types), f); };
  const bool wide = any([](DType t) { return t == DType::kF64 || t == DType::kC128; });
  if (any([](DType t) { return IsComplex(t); })) return wide ? DType::kC128 : DType::kC64;
  if (any([](DType t) { return IsFloat(t); })) return wide ? DType::kF64 : DType::kF32;
  return any([](DType t) { return t == DType::kS64 || t == DType::kU64; }) ? DType::kS64 : DType::kS32;
}

void Convolve(HostContext& context, const ConvolutionGeometry& geometry, const HostTensor& lhs,
              const HostTensor& rhs, const HostTensor& out) {
  if (out.num_elements() == 0) return;
  const DType sum = ConvolutionSumType(lhs.type, rhs.type, out.type);
  switch (sum) {
    case DType::kF32:
      return RunAs<float>(context, geometry, lhs, rhs, out, sum);
    case DType::kF64:
      return RunAs<double>(context, geometry, lhs, rhs, out, sum);
    case DType::kC64:
      return RunComplex<float>(context, geometry, lhs, rhs, out, sum);
    case DType::kC128:
      return RunComplex<double>(context, geometry, lhs, rhs, out, sum);
    default: {
      // Use unsigned arithmetic, which wraps; signed and unsigned products have the same bits.
      const auto as_signed = [&](HostTensor t) {
        if (t.type == DType::kU32) t.type = DType::kS32;
        if (t.type == DType::kU64) t.type = DType::kS64;
        return t;
      };
      if (sum == DType::kS64) {
        // Keep u32 operands unsigned, so that they are widened without a sign.
        const auto keep = [&](HostTensor t) {
          if (t.type == DType::kU64) t.type = DType::kS64;
          return t;
        };
        return RunAs<std::uint64_t>(context, geometry, keep(lhs), keep(rhs), keep(out), sum);
      }
      return RunAs<std::uint32_t>(context, geometry, as_signed(lhs), as_signed(rhs), as_signed(out), sum);
    }
  }
}

}  // namespace ipu_model
