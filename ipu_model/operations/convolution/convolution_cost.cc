// Cycle formulas of convolution vertices. The AMP's worker loops are those of PopLibs
// lib/poplin/PerformanceEstimation.hpp (ConvPartial1x1): 31 and 40 cycles for one and two positions of half
// inputs, from three on 37 + 4 per further position, and 46 + 8 for float. PopLibs lists 47 and 46 cycles for
// one and two float positions; the model uses half's 31 and 40. The call overhead beyond the loops was
// measured on Bow (see core/target_model.cc).
#include "operations/convolution/convolution_cost.h"

#include <algorithm>

#include "kernels/host/integer_division.h"

namespace ipu_model {
namespace {

// Returns the worker cycles of the AMP's inner loop over `n` positions.
std::int64_t WorkerLoop(bool half, std::int64_t n) {
  if (n <= 0) return 0;
  if (n == 1) return 31;
  if (n == 2) return 40;
  return half ? 37 + 4 * (n - 3) : 46 + 8 * (n - 3);
}

std::uint64_t MatrixUnitCycles(const TargetModel& target, DType type, const ConvolutionWork& work) {
  const std::int64_t input_group = target.AmpInputGroup(type), units = target.AmpUnits(type);
  const std::int64_t passes =
      work.groups * CeilDivide(work.features, units) * CeilDivide(work.channels, input_group) * work.taps;
  const std::int64_t weights = units * input_group * static_cast<std::int64_t>(SizeOf(type));
  const std::int64_t workers = target.worker_contexts;
  const std::int64_t pass = CeilDivide(weights, target.amp_coefficient_bytes) +
                            workers * WorkerLoop(SizeOf(type) <= 2, CeilDivide(work.positions, workers));
  return static_cast<std::uint64_t>(target.amp_call_cycles + passes * pass);
}

// Returns the cycles of one multiply-add on `width` lanes. Floats: a load and a fused operation. 32-bit
// integers: the multiply and add of the elementwise cost table. Types that the processor lacks are computed
// in software.
std::int64_t VectorStepCycles(DType type) {
  switch (type) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
      return 2;
    case DType::kC64:
      return 8;
    case DType::kF64:
      return 60;
    case DType::kC128:
      return 240;
    default:
      return SizeOf(type) == 8 ? 30 : 14;
  }
}

std::uint64_t VectorCycles(const TargetModel& target, DType type, const ConvolutionWork& work) {
  const bool vector = type == DType::kF32 || type == DType::kF16 || type == DType::kBF16;
  const std::int64_t width = vector ? target.VectorWidth(type) : 1;
  // Lanes run over the channels or, in a depthwise convolution, over the groups.
  const std::int64_t outputs = work.features * work.positions;
  const std::int64_t steps = work.channels > 1 ? work.groups * outputs * CeilDivide(work.channels, width)
                                               : outputs * CeilDivide(work.groups, width);
  const std::int64_t store =
      work.channels > 1 ? work.groups * outputs : outputs * CeilDivide(work.groups, width);
  constexpr std::int64_t kCyclesPerOutput = 8;  // addressing, rounding and store
  return static_cast<std::uint64_t>(target.supervisor_overhead + steps * work.taps * VectorStepCycles(type) +
                                    store * kCyclesPerOutput);
}

}  // namespace

ConvolutionCodelet ChooseCodelet(const TargetModel& target, DType type, const ConvolutionWork& work) {
  if (target.AmpMacsPerCycle(type) == 0) return ConvolutionCodelet::kVector;
  return MatrixUnitCycles(target, type, work) <= VectorCycles(target, type, work)
             ? ConvolutionCodelet::kMatrixUnit
             : ConvolutionCodelet::kVector;
}

std::uint64_t ConvolutionCycles(const TargetModel& target, DType type, const ConvolutionWork& work) {
  return ChooseCodelet(target, type, work) == ConvolutionCodelet::kMatrixUnit
             ? MatrixUnitCycles(target, type, work)
             : VectorCycles(target, type, work);
}

std::uint64_t ReducePartialsCycles(const TargetModel& target, DType type, std::int64_t parts,
                                   std::int64_t elements) {
  constexpr std::int64_t kLoopCycles = 30;  // worker start and loop set-up
  const std::int64_t workers = target.worker_contexts;
  const std::int64_t vectors = CeilDivide(CeilDivide(elements, workers), target.VectorWidth(type));
  return static_cast<std::uint64_t>(target.supervisor_overhead + workers * (kLoopCycles + vectors * parts));
}

}  // namespace ipu_model
