// Tests of the division of a job's pieces among workers.
#include "kernels/host/work_shares.h"

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "check.h"

namespace ipu_model {
namespace {

TEST(WorkersBeginWithTheirOwnShareAndTakeTheLastPiecesOfOthers) {
  WorkShares shares(8, 2);
  CHECK_EQ(shares.Next(1), 4);
  CHECK_EQ(shares.Next(1), 5);
  CHECK_EQ(shares.Next(0), 0);
  CHECK_EQ(shares.Next(1), 6);
  CHECK_EQ(shares.Next(1), 7);
  CHECK_EQ(shares.Next(1), 3);
  CHECK_EQ(shares.Next(0), 1);
  CHECK_EQ(shares.Next(0), 2);
  CHECK_EQ(shares.Next(0), WorkShares::kNone);
  CHECK_EQ(shares.Next(1), WorkShares::kNone);
}

TEST(AWorkerThatIsHeldUpLeavesItsShareToOthers) {
  WorkShares shares(10, 3);
  CHECK_EQ(shares.Next(2), 6);  // no other piece is left
  std::vector<int> calls(10);
  for (std::int64_t p = shares.Next(0); p != WorkShares::kNone; p = shares.Next(0))
    ++calls[static_cast<std::size_t>(p)];
  for (std::size_t p = 0; p < calls.size(); ++p) CHECK_EQ(calls[p], p == 6 ? 0 : 1);
}

TEST(FewOrNoPieces) {
  for (const std::int64_t pieces : {0, 1, 2}) {
    WorkShares shares(pieces, 4);
    std::int64_t sum = 0;
    for (std::int64_t p = 0; p < pieces; ++p) sum += shares.Next(3);
    CHECK_EQ(sum, pieces * (pieces - 1) / 2);
    CHECK_EQ(shares.Next(3), WorkShares::kNone);
  }
}

TEST(EveryPieceGoesToOneWorker) {
  // Includes more workers than there are shares.
  for (const int workers : {1, 2, 3, 40}) {
    constexpr std::int64_t kPieces = 20000;
    WorkShares shares(kPieces, workers);
    std::vector<std::atomic<int>> calls(kPieces);
    std::vector<std::thread> threads;
    for (int w = 0; w < workers; ++w) {
      threads.emplace_back([&, w] {
        for (std::int64_t p = shares.Next(w); p != WorkShares::kNone; p = shares.Next(w))
          ++calls[static_cast<std::size_t>(p)];
      });
    }
    for (std::thread& t : threads) t.join();
    for (auto& c : calls) CHECK_EQ(c.load(), 1);
  }
}

}  // namespace
}  // namespace ipu_model
