// JAX's threefry2x32: blocks of ThreeFry 2x32 (20 rounds) whose keys and counters are tensors.
#ifndef IPU_MODEL_KERNELS_RANDOM_THREEFRY_H_
#define IPU_MODEL_KERNELS_RANDOM_THREEFRY_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "hlo/RandomAlgorithm.hpp"
#include "kernels/host/bound_kernel.h"
#include "kernels/host/context.h"
#include "kernels/host/host_tensor.h"

namespace ipu_model {

using hlo::CounterWord;

// All tensors have one shape, and `in` and `words` may be broadcast. `in` holds both words of the key, then
// of each word of the counter that has one the tensor that is added to it. The element at position i of `out`
// has the counters of position begin + i. One result of u8, u16 or u32: the exclusive or of the words of a
// block; of u64: the first word above the second; two of u32: the words.
void Threefry(HostContext& context, const std::vector<HostTensor>& in, const CounterWord (&words)[2],
              const std::vector<std::int64_t>& begin, const std::vector<HostTensor>& out);

// Binds Threefry for all positions, from 0 on; null for large tensors.
std::unique_ptr<BoundKernel> BindThreefry(const std::vector<HostTensor>& in, const CounterWord (&words)[2],
                                          const std::vector<HostTensor>& out);

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_RANDOM_THREEFRY_H_
