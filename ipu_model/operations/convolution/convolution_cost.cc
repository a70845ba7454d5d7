#include "operations/convolution/convolution_cost.h"

#include <algorithm>

#include "kernels/host/integer_division.h"
#include "operations/product/amp_cost.h"

namespace ipu_model {
namespace {

std::uint64_t MatrixUnitCycles(const TargetModel& target, DType type, const ConvolutionWork& work) {
  AmpMethod method;
  method.operand = type;
  method.units = target.AmpUnits(type);
  const AmpGroups groups{work.groups, CeilDivide(work.channels, method.InputGroup(target)),
                         CeilDivide(work.features, method.units)};
  return work.taps == 1 ? Amp1x1Cycles(target, method, groups, work.positions)
                        : AmpNx1Cycles(target, method, groups, 1, work.taps, {1, work.positions});
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
