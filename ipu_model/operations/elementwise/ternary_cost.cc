#include "operations/elementwise/ternary_cost.h"

#include <algorithm>

#include "operations/elementwise/fill_iota_cost.h"
#include "operations/elementwise/operation_cost.h"

namespace ipu_model {
namespace {

std::int64_t ScalarValues(DType type, std::int64_t elements) {
  const auto size = static_cast<std::int64_t>(SizeOf(type));
  if (size == 1) return 9 + 1 + 40 + elements / 4 * 17 + 26;
  if (size == 2) return 9 + 1 + (elements % 2 != 0 ? 23 : 30) + 4 * elements;
  return 9 + 1 + 5 + 4 * elements * (size / 4) + 3;
}

// The values are copied.
std::int64_t ScalarPredicate(DType type, std::int64_t elements) {
  const std::int64_t bytes = elements * static_cast<std::int64_t>(SizeOf(type));
  return 11 + 1 + 12 + 23 + bytes / 4 + bytes % 4 * 5;
}

}  // namespace

std::uint64_t TernaryCycles(const TargetModel& target, const Instruction& instruction, const bool scalar[3],
                            std::int64_t elements) {
  const DType type = instruction.operand_type;
  const std::int64_t grain = std::max(target.VectorWidth(type), target.atomic_store_bytes);
  const std::int64_t share = RegionShare(target, elements, grain);
  std::int64_t worker = 5 + 6 + LoopAlone(instruction, false, false).Of(share);
  if (instruction.op == ScalarOp::kSelect && !scalar[0] && scalar[1] && scalar[2]) {
    worker = ScalarValues(type, share);
  } else if (instruction.op == ScalarOp::kSelect && scalar[0]) {
    worker = ScalarPredicate(type, share);
  }
  return static_cast<std::uint64_t>(target.worker_contexts * worker);
}

}  // namespace ipu_model
