// Orders the windows of a scatter by ranges of the operand, so that threads can share them.
#ifndef IPU_MODEL_KERNELS_INDEX_RANGED_WINDOWS_H_
#define IPU_MODEL_KERNELS_INDEX_RANGED_WINDOWS_H_

#include <cstdint>

#include "kernels/host/context.h"
#include "kernels/index/combine_windows.h"
#include "kernels/index/indexed_window.h"

namespace ipu_model {

// The lowest and highest offset of an element of a tensor, in elements.
struct OffsetRange {
  std::int64_t low = 0, high = 0;
  static OffsetRange Of(const HostTensor& tensor);
  bool FitsWord() const { return high - low < INT32_MAX; }
};

// Rows whose windows are inside the operand, cut into ranges of the operand offset; within a range in the
// order of the rows. Every row is looked at once, whatever the number of threads.
class RangedWindows {
 public:
  // The most rows at once: the lists of this many stay in the caches.
  static constexpr std::int64_t kMostRows = std::int64_t{1} << 16;

  // Orders rows [begin, end). The ranges must fit in a word. The lists are in the scratch memory.
  RangedWindows(HostContext& context, const WindowRows& rows, std::int64_t begin, std::int64_t end,
                const OffsetRange& operand, const OffsetRange& updates);

  int num_ranges() const { return num_ranges_; }
  // Calls f(list) for all windows of a range, in blocks.
  template <typename F>
  void ForEach(int range, F&& f) const {
    constexpr std::int64_t kBlock = 512;
    std::int64_t to[kBlock], from[kBlock];
    for (std::int64_t i = starts_[range]; i < starts_[range + 1]; i += kBlock) {
      const std::int64_t n = starts_[range + 1] - i < kBlock ? starts_[range + 1] - i : kBlock;
      for (std::int64_t k = 0; k < n; ++k) {
        to[k] = low_to_ + ordered_[i + k].to;
        from[k] = low_from_ + ordered_[i + k].from;
      }
      f(WindowList{to, from, n});
    }
  }

 private:
  // Offsets above the lowest one; kOutside in `to` for windows that are not inside.
  struct Place {
    std::uint32_t to, from;
  };
  static constexpr std::uint32_t kOutside = UINT32_MAX;

  int num_ranges_ = 0;
  std::int64_t low_to_, low_from_;
  std::int64_t* starts_;
  Place* ordered_;
};

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_INDEX_RANGED_WINDOWS_H_
