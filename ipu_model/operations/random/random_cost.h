// Tile cycles of random bits, counted from the instructions of the rounds.
#ifndef IPU_MODEL_OPERATIONS_RANDOM_RANDOM_COST_H_
#define IPU_MODEL_OPERATIONS_RANDOM_RANDOM_COST_H_

#include <cstddef>
#include <cstdint>

#include "core/target/target_model.h"

namespace ipu_model {

// A vertex that makes `words` words of 32 bits: ThreeFry has 20 rounds of 5 instructions for two words,
// Philox 10 of 30 for four, as there is no wide multiplication.
std::uint64_t RandomBitsCycles(const TargetModel& target, std::int64_t words);

// Vertices of threefry2x32, whose workers divide the elements. The instructions of one block, in the IPU's
// main pipeline, one per worker and issue slot:
//   - 20 rounds of add, xor, and a rotation from two shifts and an or: there is no rotation by any number,
//   - 2 additions of the key before the rounds, and 3 after every fourth round: two words of the key, and the
//     number of the group as an immediate operand,
//   - the exclusive or of the words, or the stores of two words; a result of fewer than 32 bits is combined
//     with its neighbours by a shift and an or,
//   - the counter and the branch of the loop, and a load for every word of a counter in memory.
// Source of the rounds: Salmon et al., SC 2011, and JAX's definition of the primitive.
class ThreefryCost {
 public:
  // `combined`: the vertex has one result, of `type`, for both words; otherwise `stores` words. `loads`:
  // words of the counter in memory.
  ThreefryCost(DType type, bool combined, std::size_t stores, std::size_t loads);
  std::uint64_t Cycles(const TargetModel& target, std::int64_t elements) const;
  std::uint64_t CodeBytes(const TargetModel& target) const;

 private:
  std::uint64_t instructions_;
};

// A vertex that counts the state up.
std::uint64_t AdvanceStateCycles(const TargetModel& target);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_RANDOM_RANDOM_COST_H_
