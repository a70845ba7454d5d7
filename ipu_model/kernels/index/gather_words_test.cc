// Tests the gather instructions: indices out of range, wraps, strides, lengths that are not a multiple of a
// vector.
#include "kernels/index/gather_words.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <random>
#include <vector>

#include "check.h"
#include "kernels/host/isa.h"

namespace ipu_model {
namespace {

using Pick = void (*)(const WordPicks&, std::int64_t, std::size_t, const void*, void*);

template <typename T>
void CheckPicks(Pick pick) {
  constexpr std::int32_t kElements = 50;
  std::mt19937_64 random(3);
  for (const std::int32_t stride : {1, 3, -2}) {
    std::vector<T> operand(static_cast<std::size_t>(kElements * std::abs(stride)));
    for (T& value : operand) value = static_cast<T>(random());
    const T* const first = stride > 0 ? operand.data() : operand.data() + (kElements - 1) * -stride;
    for (const std::int32_t wrap : {0, kElements}) {
      for (const std::int32_t limit : {0, kElements - 1}) {
        for (const std::int64_t n : {1, 7, 8, 16, 61}) {
          std::vector<std::int32_t> index;
          for (std::int64_t i = 0; i < n; ++i)
            index.push_back(static_cast<std::int32_t>(random() % (4 * kElements)) - 2 * kElements);
          index[0] = std::numeric_limits<std::int32_t>::min();
          index[static_cast<std::size_t>(n / 2)] = std::numeric_limits<std::int32_t>::max();
          std::vector<T> out(static_cast<std::size_t>(n + 1), T{42});
          for (const bool is_unsigned : {false, true}) {
            pick({index.data(), wrap, limit, stride, is_unsigned}, n, sizeof(T), first, out.data());
            for (std::int64_t i = 0; i < n; ++i) {
              std::int64_t v = index[static_cast<std::size_t>(i)];
              v = is_unsigned ? static_cast<std::uint32_t>(v) : v + (v < 0 ? wrap : 0);
              v = std::clamp<std::int64_t>(v, 0, limit);
              CHECK_EQ(out[static_cast<std::size_t>(i)], first[v * stride]);
            }
            CHECK_EQ(out[static_cast<std::size_t>(n)], T{42});
          }
        }
      }
    }
  }
}

TEST(PicksOfBothInstructionSets) {
  CheckPicks<std::int8_t>(avx2::PickWords);
  CheckPicks<std::int16_t>(avx2::PickWords);
  CheckPicks<std::int32_t>(avx2::PickWords);
  CheckPicks<std::int64_t>(avx2::PickWords);
  if (!HasAvx512()) return;
  CheckPicks<std::int8_t>(avx512::PickWords);
  CheckPicks<std::int16_t>(avx512::PickWords);
  CheckPicks<std::int32_t>(avx512::PickWords);
  CheckPicks<std::int64_t>(avx512::PickWords);
}

}  // namespace
}  // namespace ipu_model
