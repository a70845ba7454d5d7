// Direct convolution over many kernel positions. Strips of (output position, lhs batch) rows are summed over
// the images, and each worker has its own sums. The weight gradient of a training step has this form: the lhs
// batch holds the image's channels, the channels are the images, and the kernel is the output gradient.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/convolution/convolution_direct.h"
#include "kernels/convolution/convolution_layout.h"
#include "kernels/convolution/convolution_overlap.h"
#include "kernels/convolution/convolution_strip.h"
#include "kernels/host/isa.h"

namespace ipu_model {
namespace {

// Group as many images as keep their inputs and output gradients in a core's second-level cache.
constexpr double kBytesOfImages = 384e3;
// Use larger groups if the sums are so large that reading and writing them would dominate.
constexpr double kImagesPerSumBytes = 0.5;
// With less work, the start of a second worker costs more than it saves.
constexpr double kProductsPerWorker = 50e3;

template <typename T>
class WeightGradient {
 public:
  WeightGradient(const DirectConvolution<T>& problem, const StripKernels<T>& kernels)
      : problem_(problem), kernels_(kernels) {}

  void Run(HostContext& context) {
    const auto& p = problem_;
    for (int d = 0; d < p.dims; ++d) {
      outputs_ *= p.dim[d].output;
      taps_ *= p.dim[d].kernel;
    }
    rows_ = outputs_ * p.batch;
    if (rows_ == 0 || p.features == 0) return;
    width_ = (p.features + kernels_.lanes - 1) / kernels_.lanes * kernels_.lanes;
    PackGradient(context);
    ChooseRows();
    FindBoxes(context);
    Sum(context);
    Combine(context);
  }

 private:
  // A product of one overlap class per dimension, with its segments of products for one group of images.
  struct Box {
    OverlapClass part[kMaxSpatial];
    ReductionSegment* segments;
    std::int64_t segments_per_image, length, a_step, b_step;
  };

  // Packs the output gradient so that the features are contiguous.
  void PackGradient(HostContext& context) {
    const auto& p = problem_;
    gradient_ = p.rhs;
    image_step_ = p.rhs_channel;
    for (int d = 0; d < p.dims; ++d) tap_step_[d] = p.dim[d].rhs;
    if (p.rhs_feature == 1) return;
    HostTensor from, to;
    from.data = const_cast<T*>(p.rhs);
    from.type = to.type = StorageType<T>();
    from.rank = to.rank = p.dims + 2;
    from.shape[0] = p.channels;
    from.strides[0] = p.rhs_channel;
    for (int d = 0; d < p.dims; ++d) {
      from.shape[d + 1] = p.dim[d].kernel;
      from.strides[d + 1] = p.dim[d].rhs;
    }
    from.shape[p.dims + 1] = p.features;
    from.strides[p.dims + 1] = p.rhs_feature;
    T* packed = context.scratch.Allocate<T>(static_cast<std::size_t>(p.channels * taps_ * width_));
    to.data = packed;
    std::int64_t step = 1;
    for (int d = from.rank - 1; d >= 0; --d) {
      to.shape[d] = from.shape[d];
      to.strides[d] = step;
      step *= d == from.rank - 1 ? width_ : from.shape[d];
    }
    CopyConvert(context.pool, from, to);
    gradient_ = packed;
    image_step_ = to.strides[0];
    for (int d = 0; d < p.dims; ++d) tap_step_[d] = to.strides[d + 1];
  }

  // Chooses the rows of the result that are adjacent in the lhs: the lhs batch, if possible together with the
  // last output dimension. Channelwise sums use the last output dimension.
  void ChooseRows() {
    const auto& p = problem_;
    const std::int64_t batch_step = p.batch <= 1 ? 1 : p.lhs_batch;
    const bool has_last = p.dims > 0;
    const std::int64_t last_step = has_last ? p.dim[p.dims - 1].stride * p.dim[p.dims - 1].lhs : 0;
    if (p.channelwise) {
      row_step_ = last_step;
    } else if (batch_step == 1) {
      row_step_ = 1;
      merged_ = has_last && last_step == p.batch;
    } else {
      row_step_ = batch_step;
      segment_dim_ = UnitStrideTap(p);
    }
  }

  void FindBoxes(HostContext& context) {
    const auto& p = problem_;
    double image_elements = static_cast<double>(taps_ * p.features), inputs = static_cast<double>(p.batch);
    for (int d = 0; d < p.dims; ++d) inputs *= static_cast<double>(p.dim[d].input);
    image_elements += inputs;
    const double budget =
        std::max(kBytesOfImages, kImagesPerSumBytes * static_cast<double>(rows_ * width_) * sizeof(T));
    const double products = static_cast<double>(rows_ * p.features) * static_cast<double>(taps_) *
                            static_cast<double>(p.channels);
    workers_ = static_cast<int>(
        std::clamp(products / kProductsPerWorker, 1.0, static_cast<double>(context.pool.size())));
    // With few images, the workers share one set of sums instead: each owns some feature blocks and rows.
    by_image_ = workers_ == 1 || p.channels >= 2 * workers_;
    const std::int64_t images = by_image_ ? (p.channels + workers_ - 1) / workers_ : p.channels;
    group_ = std::clamp<std::int64_t>(
        static_cast<std::int64_t>(budget / (std::max(image_elements, 1.0) * sizeof(T))), 1,
        std::max<std::int64_t>(images, 1));

    OverlapClasses classes[kMaxSpatial];
    num_boxes_ = 1;
    for (int d = 0; d < p.dims; ++d) {
      classes[d] = FindOverlap(context.scratch, p.dim[d].kernel, p.dim[d].dilation, p.dim[d].output,
                               p.dim[d].stride, p.dim[d].padding, p.dim[d].input);
      num_boxes_ *= classes[d].size;
    }
    boxes_ = context.scratch.Allocate<Box>(static_cast<std::size_t>(num_boxes_));
    for (std::int64_t i = 0; i < num_boxes_; ++i) {
      std::int64_t rest = i;
      for (int d = p.dims - 1; d >= 0; --d) {
        boxes_[i].part[d] = classes[d].data[rest % classes[d].size];
        rest /= classes[d].size;
      }
      FindSegments(context, &boxes_[i]);
    }
  }

  void FindSegments(HostContext& context, Box* box) const {
    const auto& p = problem_;
    const auto extent = [&](int d) { return box->part[d].end - box->part[d].begin; };
    int segment_dim = segment_dim_;
    for (int d = p.dims - 1; d >= 0 && segment_dim_ < 0; --d) {
      if (segment_dim < 0 || extent(d) > extent(segment_dim)) segment_dim = d;
    }
    box->length = 1;
    box->a_step = 1;
    box->b_step = 0;
    if (segment_dim >= 0) {
      box->length = extent(segment_dim);
      box->a_step = p.dim[segment_dim].dilation * p.dim[segment_dim].lhs;
      box->b_step = tap_step_[segment_dim];
    }
    std::int64_t first_a = 0, first_b = 0;
    std::int64_t per_image = 1;
    bool outer[kMaxSpatial] = {};
    for (int d = p.dims - 1; d >= 0; --d) {
      const std::int64_t a_step = p.dim[d].dilation * p.dim[d].lhs;
      first_a += box->part[d].begin * a_step;
      first_b += box->part[d].begin * tap_step_[d];
      if (d == segment_dim) continue;
      // Rows that are adjacent in both operands form one segment (1x1 kernels).
      if (a_step == box->length * box->a_step && tap_step_[d] == box->length * box->b_step) {
        box->length *= extent(d);
      } else {
        outer[d] = true;
        per_image *= extent(d);
      }
    }
    box->segments_per_image = per_image;
    box->segments = context.scratch.Allocate<ReductionSegment>(static_cast<std::size_t>(group_ * per_image));
    for (std::int64_t s = 0; s < group_ * per_image; ++s) {
      ReductionSegment segment = {first_a + s / per_image * p.lhs_channel,
                                  first_b + s / per_image * image_step_};
      std::int64_t rest = s % per_image;
      for (int d = p.dims - 1; d >= 0; --d) {
        if (!outer[d]) continue;
        segment.a += rest % extent(d) * p.dim[d].dilation * p.dim[d].lhs;
        segment.b += rest % extent(d) * tap_step_[d];
        rest /= extent(d);
      }
      box->segments[s] = segment;
    }
  }

  // Adds all products of the images [begin, begin + count) for one box and feature block to `sums`. With
  // `share` workers, each takes only the rows whose first output position it owns.
  void SumBox(const Box& box, std::int64_t begin, std::int64_t count, std::int64_t block, int worker,
              int share, T* sums) const {
    const auto& p = problem_;
    ConvolutionStrip<T> strip;
    strip.a_row = row_step_;
    strip.a_step = box.a_step;
    strip.b_step = box.b_step;
    strip.b = gradient_ + begin * image_step_ + block * kernels_.columns;
    strip.segments = box.segments;
    strip.num_segments = count * box.segments_per_image;
    strip.length = box.length;
    strip.columns =
        static_cast<int>(std::min<std::int64_t>(kernels_.columns, p.features - block * kernels_.columns));
    strip.accumulate = true;
    strip.b_padded = gradient_ != p.rhs;
    strip.rounded = p.rounded;
    const int last = p.dims - 1;
    const bool last_in_rows = merged_ || (p.channelwise && last >= 0);
    const int outer_dims = last_in_rows ? p.dims - 1 : p.dims;
    strip.rows = p.channelwise ? 1 : p.batch;
    strip.c_row = p.channelwise ? p.batch * width_ : width_;
    if (last_in_rows) strip.rows *= box.part[last].other_end - box.part[last].other_begin;
    const std::int64_t batches = p.channelwise ? p.batch : 1;
    std::int64_t outer = batches;
    for (int d = 0; d < outer_dims; ++d) outer *= box.part[d].other_end - box.part[d].other_begin;
    const auto run = p.channelwise ? kernels_.channelwise : kernels_.matrix;
    for (std::int64_t i = 0; i < outer; ++i) {
      std::int64_t rest = i;
      const std::int64_t n = rest % batches;
      rest /= batches;
      std::int64_t a =
          begin * p.lhs_channel + n * p.lhs_batch + (p.channelwise ? block * kernels_.columns : 0);
      std::int64_t row = 0, step = p.batch, first = 0;
      for (int d = p.dims - 1; d >= 0; --d) {
        std::int64_t q = box.part[d].other_begin;
        if (d < outer_dims) {
          const std::int64_t size = box.part[d].other_end - box.part[d].other_begin;
          q += rest % size;
          rest /= size;
        }
        a += (q * p.dim[d].stride - p.dim[d].padding) * p.dim[d].lhs;
        row += q * step;
        step *= p.dim[d].output;
        first = q;
      }
      if (share > 1 && (first + block) % share != worker) continue;
      strip.a = p.lhs + a;
      strip.c = sums + (row + n) * width_ + block * kernels_.columns;
      run(strip);
    }
  }

  void Sum(HostContext& context) {
    const auto& p = problem_;
    const std::int64_t size = rows_ * width_;
    copies_ = by_image_ ? workers_ : 1;
    sums_ = context.scratch.Allocate<T>(static_cast<std::size_t>(size * copies_));
    if (!by_image_) std::memset(static_cast<void*>(sums_), 0, static_cast<std::size_t>(size) * sizeof(T));
    // Rows are divided by their first output position. Without such a dimension, or if one strip holds all
    // rows, they are divided by feature block.
    const std::int64_t blocks = (p.features + kernels_.columns - 1) / kernels_.columns;
    auto task = [&](int worker) {
      T* sums = sums_ + (by_image_ ? worker * size : 0);
      if (by_image_) std::memset(static_cast<void*>(sums), 0, static_cast<std::size_t>(size) * sizeof(T));
      const std::int64_t begin = by_image_ ? p.channels * worker / workers_ : 0;
      const std::int64_t end = by_image_ ? p.channels * (worker + 1) / workers_ : p.channels;
      for (std::int64_t image = begin; image < end; image += group_) {
        const std::int64_t count = std::min(group_, end - image);
        for (std::int64_t block = 0; block < blocks; ++block) {
          for (std::int64_t i = 0; i < num_boxes_; ++i) {
            SumBox(boxes_[i], image, count, block, worker, by_image_ ? 1 : ShareOfRows(), sums);
          }
        }
      }
    };
    context.pool.Run(by_image_ ? workers_ : ShareOfRows(), TaskRef(task));
  }

  // Returns the number of workers that can own rows by their first output position. A merged single dimension
  // is one strip, which can only be divided by feature block.
  int ShareOfRows() const {
    const bool first_in_strip = problem_.dims == 1 && (merged_ || problem_.channelwise);
    if (!first_in_strip) return workers_;
    return 1;
  }

  // Adds the workers' sums and writes the result.
  void Combine(HostContext& context) {
    const auto& p = problem_;
    const std::int64_t size = rows_ * width_;
    const std::int64_t grain = std::max<std::int64_t>(1, 16384 / width_);
    ParallelFor(context.pool, rows_, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        T* sum = sums_ + row * width_;
        for (int i = 1; i < copies_; ++i) {
          const T* more = sum + i * size;
          for (std::int64_t j = 0; j < p.features; ++j) sum[j] += more[j];
        }
        std::int64_t offset = row % p.batch * p.out_batch, rest = row / p.batch;
        for (int d = p.dims - 1; d >= 0; --d) {
          offset += rest % p.dim[d].output * p.dim[d].out;
          rest /= p.dim[d].output;
        }
        T* to = p.out + offset;
        if (p.out_feature == 1) {
          std::memcpy(static_cast<void*>(to), sum, static_cast<std::size_t>(p.features) * sizeof(T));
        } else {
          for (std::int64_t j = 0; j < p.features; ++j) to[j * p.out_feature] = sum[j];
        }
      }
    });
  }

  const DirectConvolution<T>& problem_;
  const StripKernels<T>& kernels_;
  std::int64_t outputs_ = 1, taps_ = 1, rows_ = 0, width_ = 0;
  const T* gradient_ = nullptr;
  std::int64_t image_step_ = 0, tap_step_[kMaxSpatial] = {};
  std::int64_t row_step_ = 1;
  bool merged_ = false;
  int segment_dim_ = -1;  // set if only one dimension is contiguous
  Box* boxes_ = nullptr;
  std::int64_t num_boxes_ = 0, group_ = 1;
  int workers_ = 1, copies_ = 1;
  bool by_image_ = true;
  T* sums_ = nullptr;
};

}  // namespace

template <typename T>
void WeightGradientConvolution(HostContext& context, const DirectConvolution<T>& problem) {
  const StripKernels<T> kernels = JAX_IPU_FOR_ISA(GetStripKernels<T>());
  WeightGradient<T>(problem, kernels).Run(context);
}

template void WeightGradientConvolution<float>(HostContext&, const DirectConvolution<float>&);
template void WeightGradientConvolution<double>(HostContext&, const DirectConvolution<double>&);
template void WeightGradientConvolution<std::uint32_t>(HostContext&, const DirectConvolution<std::uint32_t>&);
template void WeightGradientConvolution<std::uint64_t>(HostContext&, const DirectConvolution<std::uint64_t>&);

}  // namespace ipu_model
