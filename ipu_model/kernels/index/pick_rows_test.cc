// Tests the picks of both instruction sets: every element size, few and many places and results, and that
// nothing beside the results changes.
#include "kernels/index/pick_rows.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "check.h"
#include "kernels/host/isa.h"

namespace ipu_model {
namespace {

using Pick = void (*)(const RowPicks&, std::size_t, const void*, void*);

void CheckPicks(Pick pick, std::int64_t size, std::int64_t n, std::int32_t least, std::int32_t largest) {
  constexpr std::int64_t kRows = 5, kFromStep = 120, kPlain = 50;
  std::mt19937 random(static_cast<unsigned>(n + largest));
  std::vector<std::int32_t> places;
  for (std::int64_t i = 0; i < n; ++i) {
    places.push_back(least +
                     static_cast<std::int32_t>(random() % static_cast<unsigned>(largest - least + 1)));
  }
  if (n > 0) places.back() = largest;
  // Rows lie kPlain elements behind the begin, for negative places.
  std::vector<unsigned char> from(static_cast<std::size_t>((kPlain + kRows * kFromStep) * size));
  for (auto& x : from) x = static_cast<unsigned char>(random());
  const std::int64_t step = n + 3;
  std::vector<unsigned char> got(static_cast<std::size_t>(kRows * step * size), 42), expected = got;
  const auto bytes = static_cast<std::size_t>(size);
  for (std::int64_t r = 0; r < kRows; ++r) {
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t place = kPlain + r * kFromStep + places[static_cast<std::size_t>(i)];
      std::memcpy(expected.data() + (r * step + i) * size, from.data() + place * size, bytes);
    }
  }
  pick({places.data(), n, least, largest, kRows, kFromStep, step}, bytes, from.data() + kPlain * size,
       got.data());
  CHECK(got == expected);
}

TEST(PicksOfBothInstructionSets) {
  std::vector<Pick> variants{avx2::PickRows};
  if (HasAvx512()) variants.push_back(avx512::PickRows);
  for (const Pick pick : variants) {
    for (const std::int64_t size : {1, 2, 4, 8, 16}) {
      for (std::int64_t n = 0; n < 40; ++n) {
        for (const std::int32_t largest : {0, 2, 7, 8, 15, 16, 31, 32, 69})
          CheckPicks(pick, size, n, 0, largest);
        CheckPicks(pick, size, n, -50, 4);
      }
    }
  }
}

}  // namespace
}  // namespace ipu_model
