#include "kernels/host/work_shares.h"

#include <algorithm>
#include <cassert>
#include <limits>

namespace ipu_model {
namespace {

std::uint64_t Range(std::int64_t begin, std::int64_t end) {
  return static_cast<std::uint64_t>(begin) << 32 | static_cast<std::uint64_t>(end);
}
std::int64_t Begin(std::uint64_t range) { return static_cast<std::int64_t>(range >> 32); }
std::int64_t End(std::uint64_t range) { return static_cast<std::int64_t>(range & 0xffffffffu); }

}  // namespace

WorkShares::WorkShares(std::int64_t pieces, int workers) : shares_(std::clamp(workers, 1, kMostShares)) {
  assert(pieces <= std::numeric_limits<std::uint32_t>::max());
  for (int s = 0; s < shares_; ++s)
    rest_[s].store(Range(pieces * s / shares_, pieces * (s + 1) / shares_), std::memory_order_relaxed);
}

std::int64_t WorkShares::Next(int worker) {
  const int own = worker % shares_;
  for (int i = 0; i < shares_; ++i) {
    const int s = own + i < shares_ ? own + i : own + i - shares_;
    std::atomic<std::uint64_t>& rest = rest_[s];
    std::uint64_t range = rest.load(std::memory_order_relaxed);
    while (Begin(range) < End(range)) {
      const bool first = i == 0;
      const std::uint64_t left =
          first ? Range(Begin(range) + 1, End(range)) : Range(Begin(range), End(range) - 1);
      // Relaxed order suffices: the data of the pieces was written before the job started.
      if (rest.compare_exchange_weak(range, left, std::memory_order_relaxed))
        return first ? Begin(range) : End(range) - 1;
    }
  }
  return kNone;
}

}  // namespace ipu_model
