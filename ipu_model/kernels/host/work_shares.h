// Divides a job's pieces among workers at run time. A worker that is delayed, by another process or a busy
// sibling hyperthread, delays only its current piece.
#ifndef IPU_MODEL_KERNELS_HOST_WORK_SHARES_H_
#define IPU_MODEL_KERNELS_HOST_WORK_SHARES_H_

#include <atomic>
#include <cstdint>

namespace ipu_model {

// Pieces 0 to n - 1. Each worker starts with its own share, which is the same in every job of n pieces, so
// that its data is still in the worker's caches. Then it takes the last pieces of other workers' shares.
class WorkShares {
 public:
  static constexpr std::int64_t kNone = -1;

  WorkShares(std::int64_t pieces, int workers);

  // Returns a piece that no worker has taken, or kNone.
  std::int64_t Next(int worker);

 private:
  // If there are more workers, several of them use one share.
  static constexpr int kMostShares = 32;
  struct alignas(64) Share : std::atomic<std::uint64_t> {};

  int shares_;
  Share rest_[kMostShares];
};

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_HOST_WORK_SHARES_H_
