// Tests the selection of indices in a range: both instruction sets, wraps, extremes, lengths that are not a
// multiple of a vector.
#include "kernels/index/select_indices.h"

#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "check.h"
#include "kernels/host/isa.h"

namespace ipu_model {
namespace {

using Select = std::int64_t (*)(const std::int32_t*, std::int64_t, std::int32_t, std::int32_t, std::int32_t,
                                std::int32_t*, std::int32_t*);

void CheckSelect(Select select) {
  constexpr std::int32_t kLow = std::numeric_limits<std::int32_t>::min(),
                         kHigh = std::numeric_limits<std::int32_t>::max();
  std::mt19937 random(5);
  for (const std::int64_t n : {0, 1, 15, 16, 17, 100}) {
    std::vector<std::int32_t> index;
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int32_t extremes[] = {kLow, kHigh, -1, 0, kLow + 1};
      const unsigned pick = random() % 16;
      index.push_back(pick < 5 ? extremes[pick] : static_cast<std::int32_t>(random() % 120) - 60);
    }
    for (const std::int32_t wrap : {0, 50, kHigh}) {
      for (const auto& [first, end] : std::vector<std::pair<std::int32_t, std::int32_t>>{
               {0, 50}, {0, 25}, {25, 50}, {40, 40}, {0, kHigh}, {kHigh - 1, kHigh}}) {
        std::vector<std::int32_t> positions(static_cast<std::size_t>(n + kSelectSlack)), values(positions);
        const std::int64_t count = select(index.data(), n, wrap, first, end, positions.data(), values.data());
        std::int64_t expected = 0;
        for (std::int64_t i = 0; i < n; ++i) {
          std::int64_t v = index[static_cast<std::size_t>(i)];
          v += v < 0 ? wrap : 0;
          if (v < first || v >= end) continue;
          CHECK(expected < count);
          CHECK_EQ(positions[static_cast<std::size_t>(expected)], i);
          CHECK_EQ(values[static_cast<std::size_t>(expected)], v);
          ++expected;
        }
        CHECK_EQ(count, expected);
      }
    }
  }
}

TEST(SelectionsOfBothInstructionSets) {
  CheckSelect(avx2::SelectIndices);
  if (HasAvx512()) CheckSelect(avx512::SelectIndices);
}

}  // namespace
}  // namespace ipu_model
