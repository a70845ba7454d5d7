// Shared by the window kernels: the outputs that one window position affects, and strided parts of tensors.
#ifndef IPU_MODEL_KERNELS_WINDOW_WINDOW_WALK_H_
#define IPU_MODEL_KERNELS_WINDOW_WINDOW_WALK_H_

#include <algorithm>
#include <cstdint>

#include "kernels/convolution/convolution_overlap.h"
#include "kernels/host/host_tensor.h"
#include "kernels/host/integer_division.h"
#include "kernels/window/window.h"

namespace ipu_model {

// The `count` output positions first, first + step, ... for which one window position is inside the operand:
// the first reads operand position `at`, each next one the position `at_step` further.
struct TapRange {
  std::int64_t first = 0, step = 1, count = 0, at = 0, at_step = 1;
};

inline TapRange FindTap(const WindowDimension& w, std::int64_t tap, std::int64_t input, std::int64_t output) {
  TapRange range;
  // The smallest step of the output that moves by whole elements of the operand.
  while (w.stride * range.step % w.base_dilation != 0) ++range.step;
  range.at_step = w.stride * range.step / w.base_dilation;
  const std::int64_t shift = tap * w.window_dilation - w.padding_low;
  const std::int64_t q_begin = std::max<std::int64_t>(0, CeilDivide(-shift, w.stride));
  for (std::int64_t q = q_begin; q < std::min(output, q_begin + range.step); ++q) {
    const std::int64_t position = q * w.stride + shift;
    if (position % w.base_dilation != 0) continue;
    range.first = q;
    range.at = position / w.base_dilation;
    if (range.at < input) {
      range.count = std::min((output - 1 - q) / range.step, (input - 1 - range.at) / range.at_step) + 1;
    }
    break;
  }
  return range;
}

// The `count` elements begin, begin + step, ... of dimension `dim`.
inline HostTensor StridedPart(HostTensor t, int dim, std::int64_t begin, std::int64_t step,
                              std::int64_t count) {
  t.data = t.as<unsigned char>() + begin * t.strides[dim] * static_cast<std::int64_t>(SizeOf(t.type));
  t.strides[dim] *= step;
  t.shape[dim] = count;
  return t;
}

// A scalar, broadcast to the shape of `like`.
inline HostTensor BroadcastLike(const HostTensor& like, void* value, DType type) {
  HostTensor t = like;
  t.data = value;
  t.type = type;
  std::fill(t.strides, t.strides + t.rank, 0);
  return t;
}

// Visits window positions in row-major order, or in the reverse order.
class TapCounter {
 public:
  TapCounter(const WindowGeometry& geometry, bool reverse) : geometry_(geometry), reverse_(reverse) {
    for (int d = 0; d < geometry.rank; ++d) {
      position_[d] = reverse ? geometry.dim[d].size - 1 : 0;
      done_ = done_ || geometry.dim[d].size == 0;
    }
  }
  bool done() const { return done_; }
  std::int64_t operator[](int d) const { return position_[d]; }
  void Next() {
    int d = geometry_.rank - 1;
    for (; d >= 0; --d) {
      const std::int64_t size = geometry_.dim[d].size;
      position_[d] += reverse_ ? -1 : 1;
      if (position_[d] >= 0 && position_[d] < size) return;
      position_[d] = reverse_ ? size - 1 : 0;
    }
    done_ = true;
  }

 private:
  const WindowGeometry& geometry_;
  const bool reverse_;
  bool done_ = false;
  std::int64_t position_[kMaxRank] = {};
};

// Returns the number of workers for this many basic steps. For few steps, the start of a second worker costs
// more than it saves.
inline int WindowWorkers(const ThreadPool& pool, double steps) {
  constexpr double kStepsPerWorker = 32e3;
  return static_cast<int>(std::clamp(steps / kStepsPerWorker, 1.0, static_cast<double>(pool.size())));
}

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_WINDOW_WINDOW_WALK_H_
