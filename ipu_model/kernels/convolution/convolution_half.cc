// Convolution with half partials: for every kernel position the products with all channels are added to the
// sums as one matrix product.
#include <cstring>
#include <vector>

#include "kernels/convolution/convolution.h"
#include "kernels/product/gemm.h"

namespace ipu_model {
namespace {

// Rows (image x output position) that meet the input at a kernel position, and where.
struct Taps {
  std::vector<std::int64_t> rows, offsets;
};

// Position `q` of spatial dimension `d` at kernel position `k`: its place in the input, or -1.
std::int64_t InputPosition(const ConvolutionWindow& w, std::int64_t q, std::int64_t k, std::int64_t size) {
  const std::int64_t position = q * w.stride + k * w.rhs_dilation - w.padding_low;
  if (position < 0 || position % w.lhs_dilation != 0) return -1;
  return position / w.lhs_dilation < size ? position / w.lhs_dilation : -1;
}

Taps TapsOf(const ConvolutionGeometry& g, const HostTensor& lhs, const std::int64_t* out_spatial,
            const std::int64_t* kernel) {
  Taps taps;
  std::int64_t positions = 1;
  for (int d = 0; d < g.spatial; ++d) positions *= out_spatial[d];
  for (std::int64_t row = 0; row < lhs.shape[0] * positions; ++row) {
    std::int64_t offset = row / positions * lhs.strides[0], rest = row % positions;
    bool inside = true;
    for (int d = g.spatial - 1; d >= 0; rest /= out_spatial[d--]) {
      const std::int64_t at = InputPosition(g.window[d], rest % out_spatial[d], kernel[d], lhs.shape[d + 2]);
      inside = inside && at >= 0;
      offset += at * lhs.strides[d + 2];
    }
    if (!inside) continue;
    taps.rows.push_back(row);
    taps.offsets.push_back(offset);
  }
  return taps;
}

HostTensor Matrix(void* data, DType type, std::int64_t rows, std::int64_t columns) {
  HostTensor t;
  t.data = data;
  t.type = type;
  t.rank = 3;
  const std::int64_t shape[3] = {1, rows, columns}, strides[3] = {rows * columns, columns, 1};
  std::memcpy(t.shape, shape, sizeof(shape));
  std::memcpy(t.strides, strides, sizeof(strides));
  return t;
}

void CopyRow(const unsigned char* from, std::int64_t stride, std::int64_t count, std::size_t size,
             unsigned char* to) {
  if (stride == 1) {
    std::memcpy(to, from, static_cast<std::size_t>(count) * size);
    return;
  }
  for (std::int64_t i = 0; i < count; ++i, to += size)
    std::memcpy(to, from + i * stride * static_cast<std::int64_t>(size), size);
}

void AddTap(HostContext& context, const Taps& taps, const HostTensor& lhs, const HostTensor& weights,
            std::int64_t step, std::int64_t all_rows, float* sums) {
  const auto rows = static_cast<std::int64_t>(taps.rows.size());
  const std::int64_t channels = weights.shape[1], features = weights.shape[2];
  const std::size_t size = SizeOf(lhs.type), row_bytes = static_cast<std::size_t>(channels) * size;
  const std::size_t sum_bytes = static_cast<std::size_t>(features) * sizeof(float);
  auto* const patches =
      static_cast<unsigned char*>(context.scratch.Allocate(static_cast<std::size_t>(rows) * row_bytes));
  // Rows in the padding keep their sums: only the others take part.
  const bool some = rows != all_rows;
  float* const kept =
      some ? context.scratch.Allocate<float>(static_cast<std::size_t>(rows * features)) : sums;
  ParallelFor(context.pool, rows, 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const auto i = static_cast<std::size_t>(r);
      CopyRow(lhs.as<const unsigned char>() + taps.offsets[i] * static_cast<std::int64_t>(size),
              lhs.strides[1], channels, size, patches + i * row_bytes);
      if (some) std::memcpy(kept + r * features, sums + taps.rows[i] * features, sum_bytes);
    }
  });
  GemmHalfPartials(context, Matrix(patches, lhs.type, rows, channels), weights, step,
                   Matrix(kept, DType::kF32, rows, features));
  for (std::int64_t r = 0; some && r < rows; ++r)
    std::memcpy(sums + taps.rows[static_cast<std::size_t>(r)] * features, kept + r * features, sum_bytes);
}

}  // namespace

void ConvolveHalfPartials(HostContext& context, const ConvolutionGeometry& g, const HostTensor& lhs,
                          const HostTensor& rhs, const std::int64_t* out_spatial, std::int64_t step,
                          float* sums) {
  std::int64_t all_rows = lhs.shape[0], kernel_positions = 1;
  for (int d = 0; d < g.spatial; ++d) {
    all_rows *= out_spatial[d];
    kernel_positions *= rhs.shape[d + 2];
  }
  for (std::int64_t tap = 0; tap < kernel_positions; ++tap) {
    std::int64_t kernel[kMaxSpatial], rest = tap, offset = 0;
    for (int d = g.spatial - 1; d >= 0; rest /= rhs.shape[d-- + 2]) {
      kernel[d] = rest % rhs.shape[d + 2];
      const std::int64_t at = g.window[d].reversed ? rhs.shape[d + 2] - 1 - kernel[d] : kernel[d];
      offset += at * rhs.strides[d + 2];
    }
    HostTensor weights =
        Matrix(rhs.as<unsigned char>() + offset * static_cast<std::int64_t>(SizeOf(rhs.type)), rhs.type,
               rhs.shape[1], rhs.shape[0]);
    weights.strides[1] = rhs.strides[1];
    weights.strides[2] = rhs.strides[0];
    const Scratch::Mark mark = context.scratch.Save();
    AddTap(context, TapsOf(g, lhs, out_spatial, kernel), lhs, weights, step, all_rows, sums);
    context.scratch.Rewind(mark);
  }
}

}  // namespace ipu_model
