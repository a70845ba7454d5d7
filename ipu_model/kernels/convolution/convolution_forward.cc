// Direct convolution over many output positions, in strips of output pixels by blocks of output features.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "kernels/convolution/convolution_direct.h"
#include "kernels/convolution/convolution_overlap.h"
#include "kernels/convolution/convolution_strip.h"
#include "kernels/host/isa.h"

namespace ipu_model {
namespace {

// The batch is treated as another dimension of output positions.
constexpr int kMaxDims = kMaxSpatial + 1;
// With fewer output positions, packing the weights costs more than reading them in place.
constexpr std::int64_t kPixelsThatRepayPacking = 64;

template <typename T>
class Forward {
 public:
  Forward(const DirectConvolution<T>& p, const StripKernels<T>& k) : problem_(p), kernels_(k) {}

  void Run(HostContext& context) {
    const auto& p = problem_;
    AddDimensions();
    std::int64_t pixels = 1;
    for (int d = 0; d < dims_; ++d) pixels *= dim_[d].output;
    if (pixels == 0 || p.features == 0) return;
    // A depthwise pixel is one strip of all channels, which are contiguous in memory.
    columns_ = p.channelwise ? (p.features + kernels_.lanes - 1) / kernels_.lanes * kernels_.lanes
                             : kernels_.columns;
    const std::int64_t blocks = (p.features + columns_ - 1) / columns_;
    packed_ = p.rhs_feature != 1 || (blocks > 1 && !p.channelwise && pixels > kPixelsThatRepayPacking);
    weights_ = p.rhs;
    if (packed_) Pack(context, blocks);
    for (int d = 0; d < dims_; ++d) {
      classes_[d] = FindOverlap(context.scratch, dim_[d].output, dim_[d].stride, dim_[d].kernel,
                                dim_[d].dilation, dim_[d].padding, dim_[d].input);
    }
    const double products = static_cast<double>(pixels) * static_cast<double>(p.features) *
                            static_cast<double>(taps_ * p.channels);
    const int workers = WorkersFor(context.pool, products);
    const std::int64_t pieces = PiecesFor(workers, products);
    const std::size_t segments_each =
        static_cast<std::size_t>(std::max<std::int64_t>(1, taps_ * (p.channelwise ? p.channels : 1)));
    const std::size_t tile_each =
        static_cast<std::size_t>(kernels_.rows) * static_cast<std::size_t>(columns_);
    ReductionSegment* segments =
        context.scratch.Allocate<ReductionSegment>(segments_each * static_cast<std::size_t>(workers));
    T* tiles = context.scratch.Allocate<T>(tile_each * static_cast<std::size_t>(workers));
    const auto run = [&](std::size_t w, std::int64_t piece) {
      for (std::int64_t block = 0; block < blocks; ++block) {
        int at[kMaxDims] = {};
        for (;;) {
          Box box;
          for (int d = 0; d < dims_; ++d) box.part[d] = classes_[d].data[at[d]];
          RunBox(box, block, piece, pieces, segments + w * segments_each, tiles + w * tile_each);
          int d = dims_ - 1;
          while (d >= 0 && ++at[d] == classes_[d].size) at[d--] = 0;
          if (d < 0) break;
        }
      }
    };
    WorkShares shares(pieces, workers);
    auto task = [&](int worker) {
      for (std::int64_t i = shares.Next(worker); i != WorkShares::kNone; i = shares.Next(worker))
        run(static_cast<std::size_t>(worker), i);
    };
    context.pool.Run(workers, TaskRef(task));
  }

 private:
  // Whether every output reads exactly one input along this dimension, always inside.
  static bool IsPlain(const DirectDimension& d) {
    return d.kernel == 1 && d.padding == 0 && (d.output - 1) * d.stride < d.input;
  }

  void AddDimensions() {
    const auto& p = problem_;
    dim_[dims_++] = {p.batch, 1, p.batch, 1, 1, 0, p.lhs_batch, 0, p.out_batch};
    for (int d = 0; d < p.dims; ++d) {
      taps_ *= p.dim[d].kernel;
      DirectDimension next = p.dim[d];
      DirectDimension& last = dim_[dims_ - 1];
      if (IsPlain(next)) {
        next.lhs *= next.stride;
        next.stride = 1;
        next.input = next.output;
        if (IsPlain(last) && last.lhs * last.stride == next.output * next.lhs &&
            last.out == next.output * next.out) {
          next.output *= last.output;
          next.input = next.output;
          last = next;
          continue;
        }
      }
      dim_[dims_++] = next;
    }
  }

  int Width(std::int64_t block) const {
    return static_cast<int>(std::min<std::int64_t>(columns_, problem_.features - block * columns_));
  }
  int PaddedWidth(std::int64_t block) const {
    return (Width(block) + kernels_.lanes - 1) / kernels_.lanes * kernels_.lanes;
  }

  // Packs the weights into panels [feature block][kernel positions][channels][features of the block].
  void Pack(HostContext& context, std::int64_t blocks) {
    const auto& p = problem_;
    const std::int64_t rows = taps_ * p.channels;
    T* panels = context.scratch.Allocate<T>(
        static_cast<std::size_t>(rows * ((blocks - 1) * columns_ + PaddedWidth(blocks - 1))));
    ParallelFor(context.pool, blocks * taps_, std::max<std::int64_t>(1, 4096 / (p.channels * columns_ + 1)),
                [&](std::int64_t begin, std::int64_t end) {
                  for (std::int64_t i = begin; i < end; ++i) {
                    const std::int64_t block = i / taps_, tap = i % taps_;
                    std::int64_t offset = 0, rest = tap;
                    for (int d = p.dims - 1; d >= 0; --d) {
                      offset += rest % p.dim[d].kernel * p.dim[d].rhs;
                      rest /= p.dim[d].kernel;
                    }
                    const T* from = p.rhs + offset + block * columns_ * p.rhs_feature;
                    const int width = Width(block), padded = PaddedWidth(block);
                    T* to = panels + block * columns_ * rows + tap * p.channels * padded;
                    PackRows(from, to, width, padded);
                  }
                });
    weights_ = panels;
  }

  void PackRows(const T* from, T* to, int width, int padded) const {
    const auto& p = problem_;
    if (p.rhs_feature == 1) {
      for (std::int64_t c = 0; c < p.channels; ++c) {
        std::memcpy(to + c * padded, from + c * p.rhs_channel, static_cast<std::size_t>(width) * sizeof(T));
        std::fill(to + c * padded + width, to + (c + 1) * padded, T{});
      }
      return;
    }
    constexpr std::int64_t kBlock = 16;  // small enough for both sides of the transposition to stay in L1
    for (std::int64_t c0 = 0; c0 < p.channels; c0 += kBlock) {
      const std::int64_t c1 = std::min(c0 + kBlock, p.channels);
      for (int j = 0; j < padded; ++j) {
        for (std::int64_t c = c0; c < c1; ++c) {
          to[c * padded + j] = j < width ? from[j * p.rhs_feature + c * p.rhs_channel] : T{};
        }
      }
    }
  }

  // The fraction of the register tile's rows that is used if `rows` are cut into tiles of equal height.
  double Utilisation(std::int64_t rows) const {
    const std::int64_t tiles = (rows + kernels_.rows - 1) / kernels_.rows;
    const std::int64_t height = (rows + tiles - 1) / tiles;
    // Tiles of fewer than 4 rows of 2 vectors do not hide the latency of an FMA.
    return static_cast<double>(rows) / static_cast<double>(tiles * std::max<std::int64_t>(height, 4));
  }

  struct Box {
    OverlapClass part[kMaxDims];
  };

  // Finds the segments of products for the box's outputs. Kernel positions and channels that are adjacent in
  // both operands form one segment.
  void FindSegments(const Box& box, std::int64_t block, ReductionSegment* segments,
                    ConvolutionStrip<T>* strip) const {
    const auto& p = problem_;
    std::int64_t tap_step[kMaxDims], step = packed_ ? PaddedWidth(block) : p.rhs_channel;
    std::int64_t below = step * p.channels;
    for (int d = dims_ - 1; d >= 0; --d) {
      tap_step[d] = packed_ ? below : dim_[d].rhs;
      below *= dim_[d].kernel;
    }
    std::int64_t length = 1, b_step = 0;
    std::int64_t first_a = 0, first_b = 0;
    std::int64_t count[kMaxDims], a_step[kMaxDims], b_steps[kMaxDims];
    int levels = 0;
    bool can_merge = true;
    std::int64_t products = p.channels;
    const auto add = [&](std::int64_t n, std::int64_t a, std::int64_t b) {
      if (n == 1) return;
      if (can_merge && length == 1 && a == 1) {
        length = n;
        b_step = b;
      } else if (can_merge && length > 1 && a == length && b == length * b_step) {
        length *= n;
      } else {
        can_merge = false;
        count[levels] = n;
        a_step[levels] = a;
        b_steps[levels++] = b;
      }
    };
    add(p.channels, p.lhs_channel, step);
    for (int d = dims_ - 1; d >= 0; --d) {
      const OverlapClass& c = box.part[d];
      products *= c.other_end - c.other_begin;
      first_a += c.other_begin * dim_[d].dilation * dim_[d].lhs;
      first_b += c.other_begin * tap_step[d];
      add(c.other_end - c.other_begin, dim_[d].dilation * dim_[d].lhs, tap_step[d]);
    }
    std::int64_t n = 0;
    if (products > 0) {
      segments[n++] = {first_a, first_b};
      for (int level = 0; level < levels; ++level) {
        const std::int64_t inner = n;
        for (std::int64_t i = 1; i < count[level]; ++i) {
          for (std::int64_t j = 0; j < inner; ++j) {
            segments[n++] = {segments[j].a + i * a_step[level], segments[j].b + i * b_steps[level]};
          }
        }
      }
    }
    strip->segments = segments;
    strip->num_segments = n;
    strip->length = length;
    strip->a_step = 1;
    strip->b_step = b_step;
  }

  // Computes one of `pieces` parts of the outputs in `box`, for one block of features.
  void RunBox(const Box& box, std::int64_t block, std::int64_t piece, std::int64_t pieces,
              ReductionSegment* segments, T* tile) const {
    const auto& p = problem_;
    ConvolutionStrip<T> strip;
    FindSegments(box, block, segments, &strip);
    int axis = dims_ - 1;
    double best = -1;
    for (int d = dims_ - 1; d >= 0; --d) {
      const double utilisation = Utilisation(box.part[d].end - box.part[d].begin);
      if (utilisation > best * 1.001) {
        best = utilisation;
        axis = d;
      }
    }
    const std::int64_t rows = box.part[axis].end - box.part[axis].begin;
    const std::int64_t tiles = (rows + kernels_.rows - 1) / kernels_.rows;
    const std::int64_t height = (rows + tiles - 1) / tiles;
    std::int64_t lines = 1;
    for (int d = 0; d < dims_; ++d) lines *= d == axis ? 1 : box.part[d].end - box.part[d].begin;

    const bool transposed = p.out_feature != 1;
    strip.a_row = dim_[axis].stride * dim_[axis].lhs;
    strip.b = weights_ + block * columns_ * (packed_ ? taps_ * p.channels : p.rhs_feature);
    strip.b_padded = packed_;
    strip.rounded = p.rounded;
    strip.columns = Width(block);
    strip.accumulate = false;
    strip.c_row = transposed ? columns_ : dim_[axis].out;
    const auto run = p.channelwise ? kernels_.channelwise : kernels_.matrix;
    const std::int64_t units = lines * tiles;
    std::int64_t unit = units * piece / pieces;
    const std::int64_t last_unit = units * (piece + 1) / pieces;
    if (unit == last_unit) return;
    while (unit < last_unit) {
      const std::int64_t tile_begin = unit % tiles;
      const std::int64_t tile_end =
          transposed ? tile_begin + 1 : std::min(tiles, tile_begin + last_unit - unit);
      std::int64_t a = p.channelwise ? block * columns_ : 0;
      std::int64_t c = block * columns_ * p.out_feature;
      std::int64_t rest = unit / tiles;
      for (int d = dims_ - 1; d >= 0; --d) {
        std::int64_t q = box.part[d].begin;
        if (d == axis) {
          q += tile_begin * height;
        } else {
          const std::int64_t n = box.part[d].end - box.part[d].begin;
          q += rest % n;
          rest /= n;
        }
        a += (q * dim_[d].stride - dim_[d].padding) * dim_[d].lhs;
        c += q * dim_[d].out;
      }
      strip.a = p.lhs + a;
      strip.rows = std::min(rows, tile_end * height) - tile_begin * height;
      strip.c = transposed ? tile : p.out + c;
      run(strip);
      if (transposed) {
        for (int j = 0; j < strip.columns; ++j) {
          T* to = p.out + c + j * p.out_feature;
          for (std::int64_t r = 0; r < strip.rows; ++r) to[r * dim_[axis].out] = tile[r * columns_ + j];
        }
      }
      unit += tile_end - tile_begin;
    }
  }

  static int WorkersFor(ThreadPool& pool, double products) {
    // With less work, the start of a second worker costs more than it saves.
    constexpr double kProductsPerWorker = 50e3;
    return static_cast<int>(std::clamp(products / kProductsPerWorker, 1.0, static_cast<double>(pool.size())));
  }

  static std::int64_t PiecesFor(int workers, double products) {
    // Smaller pieces would cost more in setup than better load balance saves.
    constexpr double kProductsPerPiece = 1e6;
    if (workers == 1) return 1;
    return std::clamp(static_cast<std::int64_t>(products / kProductsPerPiece), std::int64_t{workers},
                      workers * kPiecesPerWorker);
  }

  const DirectConvolution<T>& problem_;
  const StripKernels<T> kernels_;
  int dims_ = 0;
  DirectDimension dim_[kMaxDims];
  OverlapClasses classes_[kMaxDims];
  std::int64_t taps_ = 1;
  std::int64_t columns_ = 0;  // output features per block
  bool packed_ = false;
  const T* weights_ = nullptr;
};

}  // namespace

template <typename T>
void ForwardConvolution(HostContext& context, const DirectConvolution<T>& problem) {
  Forward<T>(problem, JAX_IPU_FOR_ISA(GetStripKernels<T>())).Run(context);
}

template void ForwardConvolution<float>(HostContext&, const DirectConvolution<float>&);
template void ForwardConvolution<double>(HostContext&, const DirectConvolution<double>&);
template void ForwardConvolution<std::uint32_t>(HostContext&, const DirectConvolution<std::uint32_t>&);
template void ForwardConvolution<std::uint64_t>(HostContext&, const DirectConvolution<std::uint64_t>&);

}  // namespace ipu_model
