#include "operations/random/random_cost.h"

namespace ipu_model {

std::uint64_t RandomBitsCycles(const TargetModel& target, std::int64_t words) {
  return static_cast<std::uint64_t>(words) * 60 + target.supervisor_overhead;
}

std::uint64_t AdvanceStateCycles(const TargetModel& target) {
  return std::uint64_t{40} + target.supervisor_overhead;
}

}  // namespace ipu_model
