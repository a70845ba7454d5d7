// ThreeFry-2x32-20 and Philox-4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC
// 2011).
#include "kernels/random/random_loops.h"

namespace ipu_model {
namespace ISA_NAMESPACE {

void ThreeFry(std::uint64_t key, const std::uint64_t* counter, std::int64_t n, std::uint32_t* const* words) {
  const std::uint32_t k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  const std::uint32_t keys[3] = {k0, k1, k0 ^ k1 ^ 0x1bd11bdau};
  constexpr int kRotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  std::uint32_t *w0 = words[0], *w1 = words[1];
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) {
    std::uint32_t x = static_cast<std::uint32_t>(counter[i]) + keys[0];
    std::uint32_t y = static_cast<std::uint32_t>(counter[i] >> 32) + keys[1];
#pragma GCC unroll 5
    for (int group = 0; group < 5; ++group) {
#pragma GCC unroll 4
      for (int r = 0; r < 4; ++r) {
        const int rotation = kRotations[group % 2][r];
        x += y;
        y = (y << rotation | y >> (32 - rotation)) ^ x;
      }
      x += keys[(group + 1) % 3];
      y += keys[(group + 2) % 3] + static_cast<std::uint32_t>(group + 1);
    }
    w0[i] = x;
    w1[i] = y;
  }
}

void Philox(std::uint64_t key, const std::uint64_t* low, const std::uint64_t* high, std::int64_t n,
            std::uint32_t* const* words) {
  std::uint32_t *w0 = words[0], *w1 = words[1], *w2 = words[2], *w3 = words[3];
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) {
    std::uint64_t x0 = low[i] & 0xffffffffu, x1 = low[i] >> 32, x2 = high[i] & 0xffffffffu,
                  x3 = high[i] >> 32;
    std::uint32_t k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round) {
      const std::uint64_t p = x0 * 0xd2511f53u, q = x2 * 0xcd9e8d57u;
      x0 = (q >> 32) ^ x1 ^ k0;
      x1 = q & 0xffffffffu;
      x2 = (p >> 32) ^ x3 ^ k1;
      x3 = p & 0xffffffffu;
      k0 += 0x9e3779b9u;
      k1 += 0xbb67ae85u;
    }
    w0[i] = static_cast<std::uint32_t>(x0);
    w1[i] = static_cast<std::uint32_t>(x1);
    w2[i] = static_cast<std::uint32_t>(x2);
    w3[i] = static_cast<std::uint32_t>(x3);
  }
}

}  // namespace ISA_NAMESPACE
}  // namespace ipu_model
