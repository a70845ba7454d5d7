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

// `state` is 16 bytes (key, counter) or, for Philox, also 24 (key, 128-bit counter), dense.
// Writes the bits of the elements that start at `begin` in a result of extents `whole`; out is dense, of an
// unsigned or signed integer type of 8 to 64 bits.
void RandomBits(HostContext& context, RandomAlgorithm algorithm, const HostTensor& state,
                const std::vector<std::int64_t>& whole, const std::vector<std::int64_t>& begin,
                const HostTensor& out);

// The state after `whole` has been drawn: `size` bits per element.
void AdvanceState(RandomAlgorithm algorithm, const HostTensor& state, const std::vector<std::int64_t>& whole,
                  int element_bits, const HostTensor& new_state);

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_RANDOM_RANDOM_BITS_H_
