// Counter-based random bits: ThreeFry 2x32 (20 rounds) and Philox 4x32 (10 rounds), in the element order of
// XLA's rng_bit_generator.
#ifndef IPU_MODEL_KERNELS_RANDOM_RANDOM_BITS_H_
#define IPU_MODEL_KERNELS_RANDOM_RANDOM_BITS_H_

#include <cstdint>
#include <vector>

#include "hlo/RandomAlgorithm.hpp"
#include "kernels/host/context.h"
#include "kernels/host/host_tensor.h"

namespace ipu_model {

using hlo::RandomAlgorithm;

// `state` is dense and has 16 bytes (key, counter); for Philox, 24 bytes (key, 128-bit counter) are also
// valid. Writes the elements that start at `begin` of a result with extents `whole`. `out` is dense and of a
// signed or unsigned integer type of 8 to 64 bits.
void RandomBits(HostContext& context, RandomAlgorithm algorithm, const HostTensor& state,
                const std::vector<std::int64_t>& whole, const std::vector<std::int64_t>& begin,
                const HostTensor& out);

// Writes the state after all elements of `whole`, with `size` bits each, have been drawn.
void AdvanceState(RandomAlgorithm algorithm, const HostTensor& state, const std::vector<std::int64_t>& whole,
                  int element_bits, const HostTensor& new_state);

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_RANDOM_RANDOM_BITS_H_
