// The rounds of the random generators, compiled per instruction set.
#ifndef IPU_MODEL_KERNELS_RANDOM_RANDOM_LOOPS_H_
#define IPU_MODEL_KERNELS_RANDOM_RANDOM_LOOPS_H_

#include <cstdint>

namespace ipu_model {

// How a ThreeFry block (x, y) is stored: both words, their exclusive or (its low bits), or x << 32 | y.
enum class ThreefryForm { kWords, kXor8, kXor16, kXor32, kPair64 };

// One key, and the counter words of consecutive blocks: word w of block i is start[w] + i * step[w].
struct ThreefryCounters {
  std::uint32_t key[2], start[2], step[2];
};

// Computes the blocks of counter[i] for i in [0, n); word w of block i goes to words[w][i].
#define JAX_IPU_DECLARE_RANDOM_LOOPS                                                                         \
  void ThreeFry(std::uint64_t key, const std::uint64_t* counter, std::int64_t n,                             \
                std::uint32_t* const* words);                                                                \
  /* Stores n blocks of JAX's threefry2x32 in out[0], for kWords also in out[1]. */                          \
  void ThreefryCount(const ThreefryCounters& counters, std::int64_t n, ThreefryForm form, void* const* out); \
  /* The same with two words of a key and of a counter for each block: in[0] to in[3]. */                    \
  void ThreefryHash(const std::uint32_t* const* in, std::int64_t n, ThreefryForm form, void* const* out);    \
  /* The counter of block i is (low[i], high[i]). */                                                         \
  void Philox(std::uint64_t key, const std::uint64_t* low, const std::uint64_t* high, std::int64_t n,        \
              std::uint32_t* const* words);
namespace avx2 {
JAX_IPU_DECLARE_RANDOM_LOOPS
}
namespace avx512 {
JAX_IPU_DECLARE_RANDOM_LOOPS
}
#undef JAX_IPU_DECLARE_RANDOM_LOOPS

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_RANDOM_RANDOM_LOOPS_H_
