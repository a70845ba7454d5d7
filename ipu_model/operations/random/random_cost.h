// Tile cycles of random bits, counted from the instructions of the rounds.
#ifndef IPU_MODEL_OPERATIONS_RANDOM_RANDOM_COST_H_
#define IPU_MODEL_OPERATIONS_RANDOM_RANDOM_COST_H_

#include <cstdint>

#include "core/target_model.h"

namespace ipu_model {

// A vertex that makes `words` words of 32 bits: ThreeFry has 20 rounds of 5 instructions for two words,
// Philox 10 of 30 for four, as there is no wide multiplication.
std::uint64_t RandomBitsCycles(const TargetModel& target, std::int64_t words);

// A vertex that counts the state up.
std::uint64_t AdvanceStateCycles(const TargetModel& target);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_RANDOM_RANDOM_COST_H_
