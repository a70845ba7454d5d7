// The generators of random bits. Plain declarations: kernels include this header as well.
#ifndef HLO_RANDOMALGORITHM_HPP
#define HLO_RANDOMALGORITHM_HPP

#include <cstdint>
#include <vector>

namespace hlo {

// ThreeFry 2x32 with 20 rounds, Philox 4x32 with 10 rounds. Source: Salmon et al., "Parallel Random Numbers:
// As Easy as 1, 2, 3", SC 2011. StableHLO's DEFAULT is Philox here, as in XLA:CPU. The numeric values are
// written to serialised executables: append only.
enum class RandomAlgorithm : std::uint8_t { kThreeFry = 0, kPhilox, kCount };

// One 32-bit word of the counters of a tensor of blocks. At position i it is start + sum(i_d * strides[d])
// modulo 2^32, plus the element of a tensor if there is one.
struct CounterWord {
  bool has_tensor = false;
  std::uint32_t start = 0;
  std::vector<std::uint32_t> strides;
};

}  // namespace hlo

#endif  // HLO_RANDOMALGORITHM_HPP
