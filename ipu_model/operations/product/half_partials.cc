#include "operations/product/half_partials.h"

#include <algorithm>
#include <cstddef>

#include "kernels/convolution/convolution_layout.h"
#include "kernels/host/dense_tensor.h"
#include "kernels/product/gemm.h"
#include "kernels/vector/convert.h"

namespace ipu_model {
namespace {

constexpr std::int64_t kGrain = 4096;

float* Zeros(HostContext& context, std::int64_t count) {
  auto* const values = context.scratch.Allocate<float>(static_cast<std::size_t>(count));
  std::fill_n(values, count, 0.0f);
  return values;
}

void Add(ThreadPool& pool, std::int64_t count, const float* from, float* to) {
  ParallelFor(pool, count, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) to[i] += from[i];
  });
}

// Returns dense f32 values with the shape of `like`.
HostTensor Sums(const HostTensor& like, float* values) {
  HostTensor sums = DenseLike(like, values);
  sums.type = DType::kF32;
  return sums;
}

HostTensor Slice(HostTensor t, int dim, std::int64_t begin, std::int64_t end) {
  t.data = t.as<unsigned char>() + begin * t.strides[dim] * static_cast<std::int64_t>(SizeOf(t.type));
  t.shape[dim] = end - begin;
  return t;
}

}  // namespace

void AccumulateHalfPartials(HostContext& context, std::int64_t count, std::int64_t stage_sums,
                            std::int64_t elements,
                            const std::function<void(std::int64_t part, float* sums)>& compute,
                            float* total) {
  std::fill_n(total, elements, 0.0f);
  if (count == 1) return compute(0, total);
  float* const sums = Zeros(context, elements);
  float* const stage = stage_sums > 1 ? Zeros(context, elements) : total;
  std::int64_t sum = 0;  // of the first stage
  for (std::int64_t part = 0; part < count; ++part) {
    if (part > 0) std::fill_n(sums, elements, 0.0f);
    compute(part, sums);
    Add(context.pool, elements, sums, stage);
    if (stage == total || part + 1 < FirstTerm(count, stage_sums, sum + 1)) continue;
    ++sum;
    RoundToHalf(context.pool, stage, elements);
    Add(context.pool, elements, stage, total);
    std::fill_n(stage, elements, 0.0f);
  }
}

void HalfProduct(HostContext& context, const MatMulPlan& plan, const HostTensor& a, const HostTensor& b,
                 const HostTensor& out) {
  const std::int64_t elements = out.num_elements();
  if (elements == 0) return;
  auto* const total = context.scratch.Allocate<float>(static_cast<std::size_t>(elements));
  const auto compute = [&](std::int64_t part, float* sums) {
    const std::int64_t first = plan.grid.Begin(kDepthDim, part);
    const std::int64_t extent = plan.grid.Begin(kDepthDim, part + 1) - first;
    for (std::int64_t step = 0; step < plan.depth_steps; ++step) {
      const std::int64_t begin = first + extent * step / plan.depth_steps;
      const std::int64_t end = first + extent * (step + 1) / plan.depth_steps;
      const Scratch::Mark mark = context.scratch.Save();
      GemmHalfPartials(context, Slice(a, 2, begin, end), Slice(b, 1, begin, end), plan.half_step,
                       Sums(out, sums));
      context.scratch.Rewind(mark);
    }
  };
  AccumulateHalfPartials(context, plan.grid.parts[kDepthDim], plan.stage_sums, elements, compute, total);
  CopyConvert(context.pool, Sums(out, total), out);
}

void HalfProductVertex(HostContext& context, std::int64_t half_step, const HostTensor& a, const HostTensor& b,
                       const HostTensor* previous, const HostTensor& out) {
  const std::int64_t elements = out.num_elements();
  float* const sums = Zeros(context, elements);
  if (previous != nullptr) {
    for (std::int64_t i = 0; i < elements; ++i) sums[i] = F16ToF32(previous->as<std::uint16_t>()[i]);
  }
  GemmHalfPartials(context, a, b, half_step, Sums(out, sums));
  CopyConvert(context.pool, Sums(out, sums), out);
}

void SumHalfPartials(HostContext& context, const HostTensor& partials, std::int64_t count,
                     const HostTensor& out) {
  const std::int64_t elements = out.num_elements();
  float* const sums = Zeros(context, elements);
  for (std::int64_t part = 0; part < count; ++part) {
    const auto* const from = partials.as<const std::uint16_t>() + part * elements;
    for (std::int64_t i = 0; i < elements; ++i) sums[i] += F16ToF32(from[i]);
  }
  CopyConvert(context.pool, Sums(out, sums), out);
}

}  // namespace ipu_model
