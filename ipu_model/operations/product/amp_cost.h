// Cycles of PopLibs' vertices for the AMP (the matrix unit), in closed form. The formulas are those of
// PopLibs' planner and simulator, lib/poplin/PerformanceEstimation.hpp; the .cc file names the function of
// each.
#ifndef IPU_MODEL_OPERATIONS_PRODUCT_AMP_COST_H_
#define IPU_MODEL_OPERATIONS_PRODUCT_AMP_COST_H_

#include <cstdint>

#include "core/target/target_model.h"
#include "ipu_model/Types.hpp"

namespace ipu_model {

// How a vertex uses the AMP.
struct AmpMethod {
  DType operand = DType::kF16;  // the wider of the operand types
  bool float_partials = true;
  std::int64_t units = 8;          // convolution units: output channels of one pass
  std::int64_t passes = 1;         // over the units, in a group of output channels
  std::int64_t filter_height = 1;  // kernel rows of one pass; each takes a share of its input channels
  bool wide_weight_loads = false;  // 128-bit weight loads (option use128BitConvUnitLoad)

  // Returns the input channels of one pass.
  std::int64_t InputGroup(const TargetModel& target) const {
    return target.AmpInputGroup(operand) / filter_height;
  }
  std::int64_t OutputGroup() const { return units * passes; }
};

// What one vertex computes, in groups of channels.
struct AmpGroups {
  std::int64_t groups = 1;         // convolution groups
  std::int64_t input_groups = 1;   // of AmpMethod::InputGroup channels
  std::int64_t output_groups = 1;  // of AmpMethod::OutputGroup channels
};

// The outputs of one vertex, for one channel: rows of consecutive positions.
struct AmpField {
  std::int64_t rows = 1, row_positions = 1;
};

// Returns the cycles of ConvPartial1x1Out: kernels of one element on one row of outputs.
std::uint64_t Amp1x1Cycles(const TargetModel& target, const AmpMethod& method, const AmpGroups& groups,
                           std::int64_t positions);

// Returns the cycles of ConvPartialnx1, which starts anew for every row and kernel position.
// kernel_outer, kernel_inner: passes over the first kernel dimension, in steps of filter_height, and kernel
// positions in the others.
std::uint64_t AmpNx1Cycles(const TargetModel& target, const AmpMethod& method, const AmpGroups& groups,
                           std::int64_t kernel_outer, std::int64_t kernel_inner, const AmpField& field);

// Returns the cycles of poplin::OuterProduct: `positions` rows of one input channel times `channels` outputs,
// in groups of a vector, all six workers together.
std::uint64_t OuterProductCycles(const TargetModel& target, bool floats, std::int64_t positions,
                                 std::int64_t channels);
// The same for channels in groups of `group`, of which only long ones take the unrolled loop.
std::uint64_t OuterProductCycles(const TargetModel& target, bool floats, std::int64_t positions,
                                 std::int64_t channels, std::int64_t group);

// Returns the cycles of poplin's ReduceAdd, which adds `terms` partial sums of `elements` elements each, one
// of them on the tile already. One term is only converted.
std::uint64_t AmpReduceCycles(const TargetModel& target, bool float_partials, bool float_output,
                              std::int64_t terms, std::int64_t elements);

// Returns the cycles of popops::Cast on `elements` elements between half and float (1-D vertex).
std::uint64_t AmpCastCycles(const TargetModel& target, std::int64_t elements);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_PRODUCT_AMP_COST_H_
