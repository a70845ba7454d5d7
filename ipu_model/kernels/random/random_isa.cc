// ThreeFry-2x32-20 and Philox-4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC
// 2011).
#include "kernels/random/random_loops.h"

namespace ipu_model {
namespace ISA_NAMESPACE {

namespace {

struct Block {
  std::uint32_t x, y;
};

// The 20 rounds of ThreeFry 2x32 on the counter (x, y).
inline Block Rounds(std::uint32_t k0, std::uint32_t k1, std::uint32_t x, std::uint32_t y) {
  const std::uint32_t keys[3] = {k0, k1, k0 ^ k1 ^ 0x1bd11bdau};
  constexpr int kRotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  x += keys[0];
  y += keys[1];
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
  return {x, y};
}

template <typename T>
struct StoreXor {
  T* out;
  void operator()(std::int64_t i, Block b) const { out[i] = static_cast<T>(b.x ^ b.y); }
};
struct StorePair {
  std::uint64_t* out;
  void operator()(std::int64_t i, Block b) const { out[i] = std::uint64_t{b.x} << 32 | b.y; }
};
struct StoreWords {
  std::uint32_t *x, *y;
  void operator()(std::int64_t i, Block b) const {
    x[i] = b.x;
    y[i] = b.y;
  }
};

template <typename Store>
void Count(const ThreefryCounters& c, std::int64_t n, Store store) {
  const std::uint32_t k0 = c.key[0], k1 = c.key[1], x_step = c.step[0], y_step = c.step[1];
  std::uint32_t x = c.start[0], y = c.start[1];
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) {
    store(i, Rounds(k0, k1, x, y));
    x += x_step;
    y += y_step;
  }
}

template <typename Store>
void Hash(const std::uint32_t* const* in, std::int64_t n, Store store) {
  const std::uint32_t *k0 = in[0], *k1 = in[1], *x = in[2], *y = in[3];
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) store(i, Rounds(k0[i], k1[i], x[i], y[i]));
}

// Calls f with the function that stores blocks in this form.
template <typename F>
void VisitStore(ThreefryForm form, void* const* out, F&& f) {
  switch (form) {
    case ThreefryForm::kWords:
      return f(StoreWords{static_cast<std::uint32_t*>(out[0]), static_cast<std::uint32_t*>(out[1])});
    case ThreefryForm::kXor8:
      return f(StoreXor<std::uint8_t>{static_cast<std::uint8_t*>(out[0])});
    case ThreefryForm::kXor16:
      return f(StoreXor<std::uint16_t>{static_cast<std::uint16_t*>(out[0])});
    case ThreefryForm::kXor32:
      return f(StoreXor<std::uint32_t>{static_cast<std::uint32_t*>(out[0])});
    case ThreefryForm::kPair64:
      return f(StorePair{static_cast<std::uint64_t*>(out[0])});
  }
}

}  // namespace

void ThreefryCount(const ThreefryCounters& counters, std::int64_t n, ThreefryForm form, void* const* out) {
  VisitStore(form, out, [&](auto store) { Count(counters, n, store); });
}

void ThreefryHash(const std::uint32_t* const* in, std::int64_t n, ThreefryForm form, void* const* out) {
  VisitStore(form, out, [&](auto store) { Hash(in, n, store); });
}

void ThreeFry(std::uint64_t key, const std::uint64_t* counter, std::int64_t n, std::uint32_t* const* words) {
  const std::uint32_t k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  std::uint32_t *w0 = words[0], *w1 = words[1];
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) {
    const Block block =
        Rounds(k0, k1, static_cast<std::uint32_t>(counter[i]), static_cast<std::uint32_t>(counter[i] >> 32));
    w0[i] = block.x;
    w1[i] = block.y;
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
