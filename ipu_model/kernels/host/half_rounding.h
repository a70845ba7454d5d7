// Stochastic rounding of f16 results, a mode of the whole process. Kernels ask RoundsStochastically() where
// they convert f32 to f16, and then let RoundStochastically take the decision.
#ifndef IPU_MODEL_KERNELS_HOST_HALF_ROUNDING_H_
#define IPU_MODEL_KERNELS_HOST_HALF_ROUNDING_H_

#include <atomic>
#include <cstdint>

namespace ipu_model {

extern std::atomic<bool> rounds_stochastically;

// Static: the header is compiled for several instruction sets.
static inline bool RoundsStochastically() { return rounds_stochastically.load(std::memory_order_relaxed); }

// Makes f16 results of all kernels that run from now on round stochastically, or to nearest even. The same
// seed gives the same numbers, in the order in which kernels draw them.
void SetStochasticRounding(bool enabled, std::uint64_t seed);

// Rounds n values to one of their two neighbours in f16, as f32: up with a probability of the distance to the
// lower one. Values that f16 has, infinities and NaN stay; what is larger than the largest f16 may become
// infinite.
void RoundStochastically(const float* from, float* to, std::int64_t n);
float RoundStochastically(float x);

// While it exists, this thread draws from the generator of one tile, otherwise from that of the process.
class TileGenerator {
 public:
  explicit TileGenerator(unsigned tile);
  ~TileGenerator();
  TileGenerator(const TileGenerator&) = delete;
  TileGenerator& operator=(const TileGenerator&) = delete;

 private:
  unsigned saved_;
};

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_HOST_HALF_ROUNDING_H_
