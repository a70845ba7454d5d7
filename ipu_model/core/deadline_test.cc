// Deadlines of threads: nested, handed on, and asked.
#include "core/deadline.h"

#include <thread>

#include "check.h"
#include "core/mapping/mapping.h"

using namespace ipu_model;

namespace {

constexpr double kLong = 1e6, kEndless = 1e300;

bool IsOver() {
  try {
    CheckDeadline();
    return false;
  } catch (const OutOfTime&) {
    return true;
  }
}

}  // namespace

TEST(TheEarlierDeadlineCounts) {
  CHECK(!IsOver());
  {
    const Deadline far(kEndless);
    CHECK(!IsOver());
    {
      const Deadline over(0);
      CHECK(IsOver());
      const Deadline later(kLong);
      CHECK(IsOver());
    }
    CHECK(!IsOver());
  }
  const Deadline negative(-1);
  CHECK(IsOver());
}

TEST(AThreadHasTheDeadlineOfTheOneItHelps) {
  const Deadline over(0);
  const Deadline* const of_caller = DeadlineOfThread();
  bool before = true, helping = false, after = true;
  std::thread([&] {
    before = IsOver();
    {
      const HelpersDeadline same(of_caller);
      helping = IsOver();
    }
    after = IsOver();
  }).join();
  CHECK(!before);
  CHECK(helping);
  CHECK(!after);
}

TEST(VerticesEnd) {
  const Grid grid = Grid::Of({64}, {8}, 8);
  CHECK_EQ(grid.Vertices().size(), 8u);
  const Deadline over(0);
  CHECK_THROWS(OutOfTime, grid.Vertices());
}
