// A job's pieces, divided among workers while they run: one that is held up (by another process, or a busy
// sibling of its core) holds up only the piece that it is at.
#ifndef IPU_MODEL_KERNELS_HOST_WORK_SHARES_H_
#define IPU_MODEL_KERNELS_HOST_WORK_SHARES_H_

#include <atomic>
#include <cstdint>

namespace ipu_model {

// Pieces 0 to n - 1. Each worker begins with a share of its own, the same in every job of as many pieces, so
// that it finds in its caches what it left there; then it takes the last pieces of the others' shares.
class WorkShares {
 public:
  static constexpr std::int64_t kNone = -1;

  WorkShares(std::int64_t pieces, int workers);

  // A piece that nobody has had, or kNone.
  std::int64_t Next(int worker);

 private:
  // More workers share their shares.
  static constexpr int kMostShares = 32;
  struct alignas(64) Share : std::atomic<std::uint64_t> {};

  int shares_;
  Share rest_[kMostShares];
};

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_HOST_WORK_SHARES_H_
