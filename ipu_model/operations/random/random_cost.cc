#include "operations/random/random_cost.h"

namespace ipu_model {

constexpr std::uint64_t kEntryInstructions = 24;

std::uint64_t RandomBitsCycles(const TargetModel& target, std::int64_t words) {
  return static_cast<std::uint64_t>(words) * 60 + target.supervisor_overhead;
}

ThreefryCost::ThreefryCost(DType type, bool combined, std::size_t stores, std::size_t loads) {
  constexpr std::uint64_t kRounds = 20 * 5, kKey = 2 + 5 * 3, kLoop = 2;
  instructions_ = kRounds + kKey + kLoop + loads;
  if (!combined) {
    instructions_ += stores;
  } else if (SizeOf(type) == 8) {
    instructions_ += 1;  // both words with one 64-bit store
  } else {
    instructions_ += SizeOf(type) == 4 ? 2 : 4;
  }
}

std::uint64_t ThreefryCost::Cycles(const TargetModel& target, std::int64_t elements) const {
  const std::int64_t workers = target.worker_contexts, share = (elements + workers - 1) / workers;
  return (kEntryInstructions + static_cast<std::uint64_t>(share) * instructions_) * target.worker_contexts +
         target.supervisor_overhead;
}

std::uint64_t ThreefryCost::CodeBytes(const TargetModel& target) const {
  return (kEntryInstructions + instructions_) * target.instruction_bytes;
}

std::uint64_t AdvanceStateCycles(const TargetModel& target) {
  return std::uint64_t{40} + target.supervisor_overhead;
}

}  // namespace ipu_model
