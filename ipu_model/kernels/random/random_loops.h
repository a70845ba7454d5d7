// The rounds of the random generators, compiled per instruction set.
#ifndef IPU_MODEL_KERNELS_RANDOM_RANDOM_LOOPS_H_
#define IPU_MODEL_KERNELS_RANDOM_RANDOM_LOOPS_H_

#include <cstdint>

namespace ipu_model {

// Computes the blocks of counter[i] for i in [0, n); word w of block i goes to words[w][i].
#define JAX_IPU_DECLARE_RANDOM_LOOPS                                                                  \
  void ThreeFry(std::uint64_t key, const std::uint64_t* counter, std::int64_t n,                      \
                std::uint32_t* const* words);                                                         \
  /* The counter of block i is (low[i], high[i]). */                                                  \
  void Philox(std::uint64_t key, const std::uint64_t* low, const std::uint64_t* high, std::int64_t n, \
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
