// A job's pieces, divided among workers while they run: one that is held up (by another process, or a busy
// sibling of its core) holds up only the piece that it is at.
#ifndef JAX_IPU_KERNELS_WORK_SHARES_H_
#define JAX_IPU_KERNELS_WORK_SHARES_H_

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstdint>
#include <limits>

namespace ipu_model {

// Pieces 0 to n - 1. Each worker begins with a share of its own, the same in every job of as many pieces, so
// that it finds in its caches what it left there; then it takes the last pieces of the others' shares.
class WorkShares {
 public:
  static constexpr std::int64_t kNone = -1;

  WorkShares(std::int64_t pieces, int workers) : shares_(std::clamp(workers, 1, kMostShares)) {
    assert(pieces <= std::numeric_limits<std::uint32_t>::max());
    for (int s = 0; s < shares_; ++s)
      rest_[s].store(Range(pieces * s / shares_, pieces * (s + 1) / shares_), std::memory_order_relaxed);
  }

  // A piece that nobody has had, or kNone.
  std::int64_t Next(int worker) {
    const int own = worker % shares_;
    for (int i = 0; i < shares_; ++i) {
      const int s = own + i < shares_ ? own + i : own + i - shares_;
      std::atomic<std::uint64_t>& rest = rest_[s];
      std::uint64_t range = rest.load(std::memory_order_relaxed);
      while (Begin(range) < End(range)) {
        const bool first = i == 0;
        const std::uint64_t left =
            first ? Range(Begin(range) + 1, End(range)) : Range(Begin(range), End(range) - 1);
        // What the pieces are about was written before the job began.
        if (rest.compare_exchange_weak(range, left, std::memory_order_relaxed))
          return first ? Begin(range) : End(range) - 1;
      }
    }
    return kNone;
  }

 private:
  // More workers share their shares.
  static constexpr int kMostShares = 32;
  struct alignas(64) Share : std::atomic<std::uint64_t> {};

  static std::uint64_t Range(std::int64_t begin, std::int64_t end) {
    return static_cast<std::uint64_t>(begin) << 32 | static_cast<std::uint64_t>(end);
  }
  static std::int64_t Begin(std::uint64_t range) { return static_cast<std::int64_t>(range >> 32); }
  static std::int64_t End(std::uint64_t range) { return static_cast<std::int64_t>(range & 0xffffffffu); }

  int shares_;
  Share rest_[kMostShares];
};

}  // namespace ipu_model

#endif  // JAX_IPU_KERNELS_WORK_SHARES_H_
