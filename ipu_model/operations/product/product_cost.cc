#include "operations/product/product_cost.h"

#include <algorithm>

#include "kernels/host/integer_division.h"

namespace ipu_model {
namespace {

// Returns the instructions of one scalar multiply-add with its loads, for types that neither the AMP nor the
// vector unit supports. f64 is emulated in software. These are estimates; no measurement is known.
std::int64_t ScalarCyclesPerProduct(DType type) {
  switch (type) {
    case DType::kF64:
      return 90;
    case DType::kC64:
      return 6;
    case DType::kC128:
      return 4 * 90;
    case DType::kS64:
    case DType::kU64:
      return 10;
    default:
      return 3;
  }
}

// Returns the cycles of PopLibs' inner loop over the positions of one worker.
std::int64_t WorkerLoopCycles(std::int64_t positions, std::int64_t per_position) {
  const std::int64_t extra = per_position == 4 ? 0 : 9;  // f32: 46 + 8 (n - 3) against 37 + 4 (n - 3)
  switch (positions) {
    case 0:
      return 0;
    case 1:
      return 31;
    case 2:
      return 40;
    default:
      return 38 + extra + per_position * (positions - 3);
  }
}

}  // namespace

std::uint64_t ProductCycles(const TargetModel& target, DType operand, const ProductBlock& block,
                            bool wide_weight_loads) {
  if (block.groups * block.rows * block.columns * block.depth == 0) return 0;
  const auto workers = static_cast<std::int64_t>(target.worker_contexts);
  if (target.AmpMacsPerCycle(operand) == 0) {
    const std::int64_t products = block.groups * block.rows * block.columns * block.depth;
    return static_cast<std::uint64_t>(products * ScalarCyclesPerProduct(operand) +
                                      target.supervisor_overhead);
  }
  const std::int64_t units = target.AmpUnits(operand), inputs = target.AmpInputGroup(operand);
  const std::int64_t macs = target.AmpMacsPerCycle(operand);
  const std::int64_t per_position = units * inputs / macs;
  const std::int64_t coefficient_bytes = units * inputs * static_cast<std::int64_t>(SizeOf(operand));
  const std::int64_t load_bytes = target.amp_coefficient_bytes * (wide_weight_loads ? 2 : 1);
  const std::int64_t load = CeilDivide(coefficient_bytes, load_bytes);
  // The measured fixed cost includes one weight load.
  const std::int64_t fixed =
      target.amp_call_cycles - CeilDivide(coefficient_bytes, target.amp_coefficient_bytes);
  // B's columns are the output channels, which stay in the convolution units; A's rows are streamed past
  // them.
  const std::int64_t loops = CeilDivide(block.columns, units) * CeilDivide(block.depth, inputs);
  const std::int64_t loop = load + workers * WorkerLoopCycles(CeilDivide(block.rows, workers), per_position);
  return static_cast<std::uint64_t>(fixed + block.groups * loops * loop);
}

std::uint64_t PartialSumCycles(const TargetModel& target, DType partial, std::int64_t partials,
                               std::int64_t elements) {
  if (elements == 0) return 0;
  const std::int64_t vectors = CeilDivide(elements, target.VectorWidth(partial));
  return static_cast<std::uint64_t>(target.supervisor_overhead + target.worker_contexts * 20 +
                                    partials * vectors);
}

std::uint64_t ArrangeCycles(const TargetModel& target) { return target.local_copy_call_cycles; }

double ReceiveCycles(const TargetModel& target, double bytes, bool shared) {
  return bytes / (target.exchange_bytes_per_cycle * (shared ? target.tiles_per_shared_bus : 1));
}

}  // namespace ipu_model
